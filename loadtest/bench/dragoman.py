"""Dragoman as a peer: real engine processes behind the real pool, built as the service builds them, without HTTP.

This process is the client and what the HTTP process is in the service; like that one, it has the event loop that
uvicorn chooses, and does not load torch.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

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
        return self._run(_Loop(self._pool).closed(requests, concurrency))

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        return self._run(_lengths(self._pool, sources))

    def _run(self, loop: Awaitable[_Result]) -> _Result:
        async def measured() -> _Result:
            return await loop

        try:
            return self._runner.run(measured())
        except ExceptionGroup as group:
            # The others are of requests that were cancelled for it, or failed alike.
            raise group.exceptions[0] from None


async def _lengths(pool: EnginePool, sources: Sequence[list[int]]) -> list[int]:
    async def one(source_ids: list[int]) -> int:
        return len(await _token_times(pool, source_ids))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(source_ids)) for source_ids in sources]
    return [task.result() for task in tasks]


async def _token_times(
    pool: EnginePool, source_ids: list[int], count: Callable[[int], None] = lambda _: None
) -> list[float]:
    """Translate one source; return the time at which each token came, and call `count` with how many come together."""
    deadline = asyncio.get_running_loop().time() + _REQUEST_TIMEOUT_SECONDS
    generation = pool.submit(GenerationRequest(Prompt(source_ids), Search(MOST_TOKENS)))
    moments: list[float] = []
    try:
        while tokens := await generation.read_tokens(deadline):
            # Several when this process was late: a client gets them in one write.
            moments += [time.perf_counter()] * len(tokens)
            count(len(tokens))
    finally:
        generation.close()
    return moments


class _Loop:
    """One run's requests, and what came of them."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._answers: dict[int, Answer] = {}
        self._tokens = 0
        self._full_until: float | None = None

    async def closed(self, requests: Sequence[Request], concurrency: int) -> Measured:
        """Run a closed loop; the requests at its end, when fewer than `concurrency` are in flight, do not count."""
        queue = iter(enumerate(requests))
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._keep_one_in_flight(queue))
        assert self._full_until is not None
        answers = [self._answers[number] for number in range(len(self._answers))]
        return Measured(self._tokens, self._full_until - started, answers)

    async def _keep_one_in_flight(self, queue: Iterator[tuple[int, Request]]) -> None:
        for number, request in queue:
            await self._generate(number, request)
        if self._full_until is None:
            self._full_until = time.perf_counter()

    async def _generate(self, number: int, request: Request) -> None:
        since = time.perf_counter()
        moments = await _token_times(self._pool, request.source_ids, self._count)
        if len(moments) != request.new_tokens:
            raise WrongLength(f"dragoman: {len(moments)} tokens for a request of {request.new_tokens}")
        gaps = [after - before for before, after in itertools.pairwise(moments)]
        self._answers[number] = Answer(moments[0] - since, gaps)

    def _count(self, tokens: int) -> None:
        if self._full_until is None:
            self._tokens += tokens
