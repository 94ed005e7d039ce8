"""The replicas of one engine: requests go to the least loaded one, or are refused if all are full."""

import asyncio

from service.engine.messages import GenerationRequest
from service.errors import QueueFull
from service.supervisor.engine_process import EngineProcess
from service.supervisor.generation import Generation


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

    @property
    def loaded(self) -> bool:
        """True if at least one replica has its model."""
        return any(engine.ready for engine in self.engines)

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
        self.running = False
        await asyncio.gather(*(engine.stop(reason) for engine in self.engines))

    def admit(self) -> None:
        """Raise `QueueFull` if no new request can be accepted."""
        if self.load >= self._capacity:
            raise QueueFull("too many requests are waiting; try again in a moment")

    def submit(self, request: GenerationRequest) -> Generation:
        # A replica that is restarting gets requests only if all are.
        return min(self.engines, key=lambda each: (not each.ready, each.load)).submit(request)
