"""Dragoman as a peer: real engine processes behind the real pool, built as the service builds them, without HTTP.

This process is the client and what the HTTP process is in the service; like that one, it has the event loop that
uvicorn chooses, and does not load torch.
"""

import asyncio
import itertools
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from uvicorn.loops.auto import auto_loop_factory

from loadtest.bench.peers import Answer, Comparison, Measured, Peer, WrongLength
from loadtest.bench.workload import MOST_TOKENS, Request
from model.checkpoint_config import load_config
from service.engine.generation_request import GenerationRequest, Prompt, Search
from service.observability.metrics import Metrics
from service.server.composition import ModelBuilder, engine_options
from service.settings import Settings
from service.supervisor.pool import EnginePool

_REQUEST_TIMEOUT_SECONDS: Final = 600.0
_Result = TypeVar("_Result")


@contextmanager
def open_dragoman(comparison: Comparison, models: Path) -> Iterator[Peer]:
    """Open engine processes that share the cores; all else has the settings' defaults."""
    checkpoint = models / "checkpoint"
    # Constructed, since settings would otherwise read this shell's environment.
    settings = Settings.model_construct(
        model=checkpoint,
        device=comparison.device,
        mode=comparison.mode,
        replicas=comparison.replicas,
        threads=max(1, comparison.cores // comparison.replicas),
        slots=comparison.slots,
        log_level="warning",
    )
    options = replace(
        engine_options(checkpoint, load_config(checkpoint), settings),
        cpu_variant=comparison.cpu_variant,
        lends_threads=comparison.lends_threads,
    )
    pool = ModelBuilder(settings, Metrics("bench", comparison.mode)).pool("en-fr", options)
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_start(pool))
        try:
            yield _Dragoman(pool, runner)
        finally:
            runner.run(pool.stop())


async def _start(pool: EnginePool) -> None:
    pool.start()
    await pool.wait_until_started()


class _Dragoman:
    def __init__(self, pool: EnginePool, runner: asyncio.Runner) -> None:
        self._pool = pool
        self._runner = runner

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        """Run a closed loop; the tokens at its end, when fewer than `concurrency` are in flight, do not count."""
        queue = iter(enumerate(requests))
        answers: dict[int, Answer] = {}
        moments: list[float] = []
        drained: list[float] = []

        async def keep_one_in_flight() -> None:
            for number, request in queue:
                since = time.perf_counter()
                its_moments = await self._token_times(request.source_ids)
                if len(its_moments) != request.new_tokens:
                    raise WrongLength(f"dragoman: {len(its_moments)} tokens for a request of {request.new_tokens}")
                gaps = [after - before for before, after in itertools.pairwise(its_moments)]
                answers[number] = Answer(its_moments[0] - since, gaps)
                moments.extend(its_moments)
            drained.append(time.perf_counter())

        started = time.perf_counter()
        self._run_all([keep_one_in_flight() for _ in range(concurrency)])
        full_until = drained[0]
        tokens = sum(moment <= full_until for moment in moments)
        return Measured(tokens, full_until - started, [answers[number] for number in range(len(answers))])

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        return [len(moments) for moments in self._run_all([self._token_times(each) for each in sources])]

    async def _token_times(self, source_ids: list[int]) -> list[float]:
        """Translate one source; return the time at which each token came."""
        deadline = asyncio.get_running_loop().time() + _REQUEST_TIMEOUT_SECONDS
        generation = self._pool.submit(GenerationRequest(Prompt(source_ids), Search(MOST_TOKENS)))
        moments: list[float] = []
        try:
            while tokens := await generation.read_tokens(deadline):
                # Several when this process was late: a client gets them in one write.
                moments += [time.perf_counter()] * len(tokens)
        finally:
            generation.close()
        return moments

    def _run_all(self, calls: Sequence[Coroutine[Any, Any, _Result]]) -> list[_Result]:
        """Run calls side by side; raises the first error of one, and cancels the others."""

        async def all_together() -> list[_Result]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(call) for call in calls]
            return [task.result() for task in tasks]

        try:
            return self._runner.run(all_together())
        except ExceptionGroup as group:
            # The others are of requests that were cancelled for it, or failed alike.
            raise group.exceptions[0] from None
