"""The processes that engines are forks of: the zygote, which has imported PyTorch, and a fork server for each model.

A fork server is a fork of the zygote that has loaded a model; engines are forks of it. So all models share the memory
of PyTorch, the replicas of one share its weights, and a dead engine is replaced as fast as a process forks. The program
is `service/engine/__main__.py`.
"""

import asyncio
import logging
import socket
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Final

import msgspec

from service.engine.messages import MOST_LENDERS, EngineOptions, frame
from service.errors import EngineFailed
from service.supervisor.forks import Engine, ForkingProcess, LaunchedProcess, launch

logger = logging.getLogger(__name__)

_TRIES: Final = 3
# How long loading may take: the first time from a slow disk, or with a compiler's work; later as it did before.
_FIRST_LOAD_SECONDS: Final = 600.0
_LEAST_LOAD_SECONDS: Final = 30.0
_TIMES_SLOWER: Final = 10
_STOP_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 10.0


class Forker(ABC):
    """Makes forks of one process, which is started when the first is wanted, and again when it has died.

    A process that does not answer, or does not come to the end of loading, is killed and counts as dead.
    """

    name: str
    """The kind of the process, for the log and for errors."""

    def __init__(self) -> None:
        self._users: set[object] = set()
        self._process: ForkingProcess | None = None
        self._watch: asyncio.Task[None] | None = None
        self._load_seconds = _FIRST_LOAD_SECONDS
        # One request after the other: a reply does not say to which.
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Set while there is a process."""
        return None if self._process is None else self._process.pid

    @abstractmethod
    async def _launch(self) -> ForkingProcess:
        """Start the process, which loads from now on. Raises `EngineFailed` and OSError."""

    async def _forked(self, number: int) -> tuple[int, socket.socket]:
        """Have the process make a fork; start the process first if need be.

        Returns the fork's process id and the socket whose other end it has. A process that does not answer is replaced:
        this is tried a few times. Raises `EngineFailed` if there can be no fork, and OSError.
        """
        async with self._turn:
            for _ in range(_TRIES):
                try:
                    return await self._fork_once(self._process or await self._start(), number)
                except (EOFError, ConnectionError, TimeoutError) as error:
                    logger.error("the %s does not answer", self.name, extra={"reason": repr(error)})
        raise EngineFailed(f"none of {_TRIES} {self.name}s has answered")

    async def _fork_once(self, process: ForkingProcess, number: int) -> tuple[int, socket.socket]:
        try:
            pid, channel = await process.fork(number)
        except EngineFailed:
            raise
        except BaseException:
            # A reply that came later would be taken for the next one's.
            await self._drop()
            raise
        if pid == process.pid:
            self._process = None  # it does not fork, and has become what was wanted
            await process.forget()
        return pid, channel

    async def _start(self) -> ForkingProcess:
        self._process = process = await self._launch()
        try:
            await process.loaded(self._load_seconds)
        except (EOFError, ConnectionError):
            await self._drop()
            raise EngineFailed("the engine process ended before it was ready") from None
        except TimeoutError:
            await self._drop()
            self._load_seconds *= 2  # if it has not hung, but the machine is that slow, it comes to its end some time
            raise EngineFailed(f"the {self.name} was not ready after {process.age:.0f} s") from None
        except BaseException:
            await self._drop()
            raise
        self._load_seconds = max(_LEAST_LOAD_SECONDS, _TIMES_SLOWER * process.age)
        self._watch = asyncio.create_task(self._replace(process))
        return process

    async def _replace(self, process: ForkingProcess) -> None:
        """Replace the process when it has died, even if no fork is wanted; try until it loads."""
        await process.ended()
        if self._process is not process:
            return
        logger.error("the %s has died, starting another", self.name)
        self._process = None
        pause = _PAUSE_SECONDS
        while self._users:
            await asyncio.sleep(pause)
            async with self._turn:
                if self._process is not None or not self._users:
                    return
                try:
                    await self._start()
                    return
                except (EngineFailed, OSError) as error:
                    logger.error("the %s cannot start", self.name, extra={"reason": str(error)})
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def acquire(self, user: object) -> None:
        """Keep the process running for `user` until it calls `release`."""
        self._users.add(user)

    async def release(self, user: object) -> None:
        """Undo `acquire`; after the last user, return when the process and all its forks are gone, too."""
        self._users.discard(user)
        if not self._users:
            if self._watch is not None:
                # It may be loading, for which nobody waits any more.
                self._watch.cancel()
                await asyncio.gather(self._watch, return_exceptions=True)
            async with self._turn:
                await self._drop(_STOP_SECONDS)

    async def _drop(self, patience: float = 0.0) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end(patience)


class Zygote(Forker):
    """The process that has imported PyTorch and the operators. Its forks are the fork servers of all models."""

    name = "zygote"

    def __init__(
        self, log_level: str = "info", log_format: str = "auto", *, forks: bool = sys.platform == "linux"
    ) -> None:
        """`forks` is False where not every library of the system survives a fork.

        There each engine process imports and loads everything for itself.
        """
        super().__init__()
        self.forks = forks
        self._logs = (log_level, log_format)
        self._launched: LaunchedProcess | None = None
        self._lenders: dict[object, range] = {}

    def launch(self) -> None:
        """Start the process before it is wanted: it imports for seconds, in which this process can do so, too."""
        with suppress(OSError):  # it is tried again, and reported, when the first model is loaded
            self._launched = launch(*self._logs, forks=self.forks)

    def discard(self) -> None:
        """Kill the process that `launch` has started, if no model has wanted it."""
        if self._launched is not None:
            self._launched.kill()
            self._launched = None

    async def _launch(self) -> ForkingProcess:
        launched, self._launched = self._launched, None
        return ForkingProcess(*(launched or launch(*self._logs, forks=self.forks)))

    async def fork(self, options: EngineOptions) -> ForkingProcess:
        """Start a process that loads a model, and that forks its engines. Raises `EngineFailed` and OSError."""
        pid, control = await self._forked(0)
        with suppress(ConnectionError):  # it has ended, which is read
            await asyncio.get_running_loop().sock_sendall(control, frame(options))
        return ForkingProcess(pid, control)

    def number_lenders(self, user: object, count: int) -> int:
        """Return the first of `count` numbers for the engines of `user` until it calls `release`; -1 if none is left.

        The engines of all models lend one another their threads by these numbers.
        """
        self._lenders.pop(user, None)
        taken = {number for numbers in self._lenders.values() for number in numbers}
        for first in range(MOST_LENDERS - count + 1):
            if taken.isdisjoint(numbers := range(first, first + count)):
                self._lenders[user] = numbers
                return first
        return -1

    async def release(self, user: object) -> None:
        self._lenders.pop(user, None)
        await super().release(user)


class ForkServer(Forker):
    """The process that has loaded a model. Its forks are the engines."""

    name = "fork server"

    def __init__(self, options: EngineOptions, zygote: Zygote | None = None) -> None:
        """Without a `zygote` that other models share, it has its own."""
        super().__init__()
        self.options = options
        self.zygote = zygote or Zygote(options.log_level)

    async def _launch(self) -> ForkingProcess:
        options = self.options
        first = self.zygote.number_lenders(self, options.engines) if options.lends_threads else -1
        return await self.zygote.fork(msgspec.structs.replace(options, first_lender=first))

    async def fork(self, replica: int) -> Engine:
        """Start an engine process, which reports when it is ready. Raises `EngineFailed` and OSError."""
        pid, channel = await self._forked(replica)
        return Engine(pid, *await asyncio.open_unix_connection(sock=channel))

    def acquire(self, user: object) -> None:
        self.zygote.acquire(self)
        super().acquire(user)

    async def release(self, user: object) -> None:
        await super().release(user)
        if not self._users:
            await self.zygote.release(self)
