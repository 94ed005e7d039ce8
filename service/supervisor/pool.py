"""The replicas of one engine: requests go to the least loaded one, or are refused if all are full.

What a replica cannot run is handed to a sibling at once: the back-off of a dead replica is its own.
"""

import asyncio
import contextlib
from typing import Final

from service.engine.generation_request import GenerationRequest
from service.errors import QueueFull
from service.supervisor.engine_process import EngineProcess
from service.supervisor.generation import Generation

_GRACE_SECONDS: Final = 15.0
"""Requests wait so long for files of a checkpoint that are missing or incomplete: somebody may be replacing them."""


class EnginePool:
    """Sends each request to the least loaded replica; refuses new work over `capacity`.

    `capacity` counts the slots that requests in flight, running and waiting, hold or need. It is checked once
    per client request, by `admit`: later segments of an admitted text are not refused.
    """

    def __init__(self, engines: list[EngineProcess], capacity: int) -> None:
        self.engines = engines
        self._capacity = capacity
        self.running = False
        """True if engines are started, loaded or not; without any, requests wait."""
        self.stops = 0
        """The number of calls of `stop`."""
        self._was_loaded = False
        self._settled = asyncio.Event()
        """Set while a replica is ready, or the files of the checkpoint have been unusable for too long."""
        self._has_given_up = False
        self._giving_up: asyncio.TimerHandle | None = None
        for engine in engines:
            engine.on_change = self._on_change

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
        return sum(engine.load for engine in self.engines)

    @property
    def pids(self) -> list[int]:
        """The ids of the engine processes that there are."""
        return [engine.pid for engine in self.engines if engine.pid is not None]

    @property
    def parent_pid(self) -> int | None:
        """The id of the process that they are forks of, if there is one."""
        return next((engine.parent_pid for engine in self.engines), None)

    def start(self) -> None:
        """Start all replicas; also possible after a stop."""
        self.running = True
        for engine in self.engines:
            engine.start()

    async def wait_until_started(self) -> None:
        """Wait until every replica has its model; raise `EngineFailed` if one cannot start."""
        await asyncio.gather(*(engine.wait_until_started() for engine in self.engines))

    async def stop(self, reason: str = "the engine was stopped") -> None:
        """Fail requests in flight with the reason; later ones wait for the next start."""
        self.running = self._was_loaded = False
        self.stops += 1
        self._forget_refusal()
        await asyncio.gather(*(engine.stop(reason) for engine in self.engines))

    def admit(self) -> None:
        """Raise `QueueFull` if no new request can be accepted."""
        if self.load >= self._capacity:
            raise QueueFull("too many requests are waiting; try again in a moment")

    def submit(self, request: GenerationRequest) -> Generation:
        return self._best().submit(request)

    def adopt(self, generation: Generation) -> None:
        """Submit a request that has its generation, and may have tokens, already."""
        self._best().adopt(generation)

    def _best(self) -> EngineProcess:
        # A replica that is restarting, or reserved for suspects, gets requests only if all are.
        return min(self.engines, key=lambda each: (not each.available, each.load))

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
            engine.fail_all(self.refusal or "the engine cannot start")

    def _balance(self) -> None:
        """Hand requests that no engine works on to replicas that have less to do, or to any from a dead one."""
        for giver in self.engines:
            for generation in giver.movable:
                available = [each for each in self.engines if each.available and each is not giver]
                taker = min(available, key=lambda each: each.load, default=None)
                if taker is None:
                    break
                if not giver.available or taker.load + generation.size <= giver.load - generation.size:
                    giver.hand_over(generation, taker)
