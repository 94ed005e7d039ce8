"""The cost of an update with drafts and without, with the same results."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

import psutil
from msgspec.structs import replace

from loadtest.live.quality import Pair, grow
from loadtest.metrics import Metrics
from service.api.context import ServiceContext
from service.engine.generation_request import GenerationRequest
from service.live.policies import PRESETS
from service.supervisor.generation import Reader
from service.supervisor.pool import EnginePool


class Cost(NamedTuple):
    """The cost of an update: decoder steps, and processor time of the engines."""

    steps: float
    milliseconds: float
    texts: list[str]


async def cost_of(service: ServiceContext, pairs: Sequence[Pair], *, with_drafts: bool) -> Cost:
    """Read all pairs to `balanced` sessions, one at a time: then each step is of one update."""
    before = _steps(service), _processor_seconds(service)
    with _drafts(allowed=with_drafts):
        translated = await grow(service, pairs, PRESETS["balanced"], at_once=1)
    updates = sum(each.source_words for each in translated)
    steps, seconds = _steps(service) - before[0], _processor_seconds(service) - before[1]
    return Cost(steps / updates, 1000 * seconds / updates, [each.text for each in translated])


@contextmanager
def _drafts(*, allowed: bool) -> Iterator[None]:
    """Take the draft out of requests unless drafts are allowed."""
    submit = EnginePool.submit

    def without(pool: EnginePool, request: GenerationRequest, scope: str | None = None) -> Reader:
        return submit(pool, request if allowed else replace(request, draft=[]), scope)

    with patch.object(EnginePool, "submit", without):
        yield


def _steps(service: ServiceContext) -> float:
    return Metrics(service.metrics.exposition().decode()).total("dragoman_step_seconds_count")


def _processor_seconds(service: ServiceContext) -> float:
    pools = [each.model.pool for each in service.library.versions if each.model is not None]
    times = [psutil.Process(pid).cpu_times() for pool in pools for pid in pool.pids]
    return float(sum(each.user + each.system for each in times))
