"""The replicas of one engine, behind the cache: requests go to the least loaded one, or are refused if all are full.

What a replica cannot run is handed to a sibling at once: the back-off of a dead replica is its own.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from service.engine.generation_request import GenerationRequest
from service.errors import EngineFailed, QueueFull, RequestFailed
from service.supervisor.cache import SegmentCache, SegmentKey
from service.supervisor.engine_process import EngineProcess
from service.supervisor.generation import Generation, Reader

_GRACE_SECONDS: Final = 15.0
"""Requests wait so long for files of a checkpoint that are missing or incomplete: somebody may be replacing them."""


class EnginePool:
    """Sends each request that the cache cannot answer to the least loaded replica; refuses work over `capacity`.

    `capacity` counts the slots that requests in flight, running and waiting, hold or need. It is checked once
    per client request, by `admit`: later segments of an admitted text are not refused.
    """

    def __init__(
        self,
        engines: Sequence[EngineProcess],
        capacity: int,
        cache: SegmentCache | None = None,
        request_load: Callable[[], None] = lambda: None,
    ) -> None:
        """Without a `cache`, every request is decoded; `request_load` is called for each while no engine runs."""
        self.engines = engines
        self._capacity = capacity
        self._cache = cache
        self._request_load = request_load
        self.used_at = time.monotonic()
        """The time of the last request."""
        self.running = False
        """True if engines are started, loaded or not; without any, requests wait."""
        self._was_loaded = False
        self._settled = asyncio.Event()
        """Set while a replica is ready, or the files of the checkpoint have been unusable for too long."""
        self._has_given_up = False
        self._giving_up: asyncio.TimerHandle | None = None

    @property
    def loaded(self) -> bool:
        """True if at least one replica has its model."""
        return any(engine.ready for engine in self.engines)

    @property
    def replacing(self) -> bool:
        """True if engines could answer before, and all are dead now."""
        return self._was_loaded and not self.loaded

    @property
    def refusal(self) -> str | None:
        """The reason why no engine can start from the checkpoint's files, if all are dead."""
        reasons = (engine.refusal for engine in self.engines if engine.refusal)
        return None if self.loaded else next(reasons, None)

    @property
    def load(self) -> int:
        """Slots that requests in flight hold or need, in all replicas."""
        return sum(engine.requests.load for engine in self.engines)

    @property
    def pids(self) -> list[int]:
        """The ids of the engine processes that there are."""
        return [engine.pid for engine in self.engines if engine.pid is not None]

    @property
    def parent_pid(self) -> int | None:
        """The id of the process that they are forks of, if there is one."""
        return next((engine.fork_server.pid for engine in self.engines), None)

    @property
    def zygote_pid(self) -> int | None:
        """The id of the process that the parent is a fork of, if there is one."""
        return next((engine.fork_server.zygote.pid for engine in self.engines), None)

    def start(self) -> None:
        """Start all replicas; also possible after a stop."""
        self.running = True
        for engine in self.engines:
            engine.start(self._on_change)

    async def wait_until_started(self) -> None:
        """Wait until every replica has its model; raise `EngineFailed` if one cannot start."""
        await asyncio.gather(*(engine.wait_until_started() for engine in self.engines))

    async def stop(self, reason: str = "the engine was stopped") -> None:
        """Fail requests in flight with the reason; later ones wait for the next start."""
        self.running = self._was_loaded = False
        if self._cache is not None:
            self._cache.forget_decodes()  # they fail, and a later request must not join them
        self._forget_refusal()
        await asyncio.gather(*(engine.stop(reason) for engine in self.engines))

    def admit(self) -> None:
        """Raise `QueueFull` if no new request can be accepted."""
        if self.load >= self._capacity:
            raise QueueFull("too many requests are waiting; try again in a moment")

    def submit(self, request: GenerationRequest, scope: str | None = None) -> Reader:
        """Return a reader of a new request's tokens.

        Equal requests of a `scope` share results: they get kept tokens, or those of a request in flight.
        """
        self.used_at = time.monotonic()
        if self._cache is None or scope is None:
            generation = Generation(request)
        else:
            assert not request.inspect.hypotheses  # beam reports are not kept
            key = self._cache.key(request, scope)
            if (known := self._cache.find(key, request)) is not None:
                return known.add_reader()
            generation = Generation(request, partial(self._on_shared_end, key))
            self._cache.add(key, generation)
        reader = generation.add_reader()
        self._decode(generation)
        return reader

    def _decode(self, generation: Generation) -> None:
        # A replica that is restarting, or reserved for suspects, gets requests only if all are.
        min(self.engines, key=lambda each: (not each.available, each.requests.load)).requests.take(generation)
        if not self.running:
            self._request_load()

    def _on_shared_end(self, key: SegmentKey, ended: Generation, readers: Sequence[Reader]) -> None:
        """Keep a finished segment. If the request itself was the reason of a failure, only its first reader fails.

        The others have done nothing but follow, and continue on their own.
        """
        assert self._cache is not None
        self._cache.end(key, ended)
        if isinstance(ended.failure, RequestFailed):
            for reader in readers:
                if reader.follows:
                    self._decode(reader.continue_alone())

    async def wait_until_loaded(self, seconds: float) -> bool:
        """Wait while engines are replaced; return False if that fails or takes longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._settled.wait()
        return self.loaded

    def _on_change(self) -> None:
        if self.running:
            self._was_loaded = self._was_loaded or self.loaded
            self._watch_refusal()
            self._balance()
        if self.loaded or self._has_given_up:
            self._settled.set()
        else:
            self._settled.clear()

    def _watch_refusal(self) -> None:
        """Give up after a while without usable files, and then at each failed start; forget that once they are back."""
        if not self.replacing or self.refusal is None:
            self._forget_refusal()
        elif self._has_given_up:
            self._give_up()
        elif self._giving_up is None:
            self._giving_up = asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._give_up)

    def _forget_refusal(self) -> None:
        self._has_given_up = False
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        self._has_given_up = True
        self._settled.set()
        for engine in self.engines:
            engine.requests.fail(engine.requests.in_flight, EngineFailed(self.refusal or "the engine cannot start"))

    def _balance(self) -> None:
        """Hand requests that no engine works on to replicas that have less to do, or to any from a dead one."""
        for giver in self.engines:
            for generation in giver.requests.movable:
                available = [each for each in self.engines if each.available and each is not giver]
                taker = min(available, key=lambda each: each.requests.load, default=None)
                if taker is None:
                    break
                left = giver.requests.load - generation.size
                if not giver.available or taker.requests.load + generation.size <= left:
                    giver.requests.release(generation)
                    taker.requests.take(generation)
