"""The HTTP process's handle on the process that has loaded a model, and that forks the engine processes.

The replicas of a model share the memory of its weights, and a dead engine is replaced as fast as a process
forks. The program is `service/engine/__main__.py`.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

import msgspec

from service.engine.channel import Frames
from service.engine.messages import EngineOptions, Failed, Forked, ForkReply
from service.errors import EngineFailed
from service.process.interpreter import python_command
from service.supervisor.watchdog import Watchdog

logger = logging.getLogger(__name__)

_TRIES: Final = 3
# How long the model may take to load: the first time it may come from a slow disk, and later as it did before.
_FIRST_LOAD_SECONDS: Final = 600.0
_LEAST_LOAD_SECONDS: Final = 30.0
_TIMES_SLOWER: Final = 10
_STOP_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 10.0
_READ_BYTES: Final = 1 << 16
_FORK_SECONDS: Final = 30.0  # it takes milliseconds, but a loaded machine may not come to it
_STANDSTILL_SECONDS: Final = 2.0
_CHECK_SECONDS: Final = 0.5
_REAP_SECONDS: Final = 0.01
_REAP_TRIES: Final = 500


class UnusableCheckpoint(EngineFailed):
    """The files of a checkpoint are damaged, or others than at the start of the server."""


class ForkingProcess:
    """The process `python -m service.engine`, and the socket that carries requests for forks.

    Knows no replicas: it is used by one request at a time, because a reply does not say to which.
    """

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._frames = Frames()

    @classmethod
    async def start(cls, options: EngineOptions) -> "ForkingProcess":
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        command = python_command("-m", "service.engine", str(theirs.fileno()))
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                msgspec.json.encode(options).decode(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=2,  # a library that prints
                pass_fds=[theirs.fileno()],
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def loaded(self, seconds: float) -> None:
        """Wait until the model is loaded.

        Raises `EngineFailed` with the reported reason, EOFError if the process ends, and TimeoutError if loading takes
        longer than `seconds` or the process is stopped.
        """
        # It may sleep for long: another process compiles the operators.
        reply = await self._unless_hung(self._reply(), seconds, may_sleep=True)
        if isinstance(reply, Failed):
            raise UnusableCheckpoint(reply.reason) if reply.checkpoint else EngineFailed(reply.reason)

    async def fork(self, replica: int, channel: socket.socket) -> int:
        """Return the id of an engine process at that end of a channel.

        Raises `EngineFailed` if there can be none; EOFError or ConnectionError if this process is gone, TimeoutError if
        it has hung.
        """
        socket.send_fds(self._control, [bytes([replica])], [channel.fileno()])
        reply = await self._unless_hung(self._reply(), _FORK_SECONDS)
        if isinstance(reply, Failed):
            raise EngineFailed(reply.reason)
        assert isinstance(reply, Forked)
        return reply.pid

    async def _unless_hung(
        self, answer: Coroutine[Any, Any, ForkReply], seconds: float, *, may_sleep: bool = False
    ) -> ForkReply:
        waiting = asyncio.create_task(answer)
        watchdog = Watchdog(self.pid, _STANDSTILL_SECONDS, may_sleep=may_sleep)
        started = time.monotonic()
        try:
            while not (await asyncio.wait({waiting}, timeout=_CHECK_SECONDS))[0]:
                if watchdog.is_hung(started, seconds):
                    raise TimeoutError(f"no answer after {time.monotonic() - started:.1f} s")
            return waiting.result()
        finally:
            waiting.cancel()

    async def _reply(self) -> ForkReply:
        receive = asyncio.get_running_loop().sock_recv
        while not (bodies := self._frames.feed(data := await receive(self._control, _READ_BYTES))):
            if not data:
                raise EOFError("it has ended")
        reply: ForkReply = msgspec.msgpack.decode(bodies[0], type=ForkReply)
        return reply

    async def ended(self) -> None:
        await self._process.wait()

    def release(self) -> None:
        """Ask for nothing more: it ends when its forks have ended."""
        self._control.close()

    async def end(self, patience: float) -> None:
        """Wait for the end for so many seconds, then kill the process; its forks go on."""
        self.release()
        try:
            async with asyncio.timeout(patience):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


class Engine(NamedTuple):
    """An engine process at the other end of a socket."""

    pid: int
    reports: asyncio.StreamReader
    """Ends with the process."""
    commands: asyncio.StreamWriter
    """The engine ends when this ends."""

    def kill(self) -> None:
        """Kill the process; only while `reports` has not ended, because its id may be another process's afterwards."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    async def end(self, patience: float) -> None:
        """Wait until the process has ended; kill it after so many seconds."""
        try:
            async with asyncio.timeout(patience):
                if not self.commands.is_closing():
                    self.commands.write_eof()
                while await self.reports.read(_READ_BYTES):
                    pass
        except TimeoutError:
            self.kill()
        except OSError:
            pass  # it has ended
        self.commands.close()

    async def reap(self) -> None:
        """Reap the process once it has ended: the first process of a container inherits forks whose parent has died."""
        for _ in range(_REAP_TRIES):
            try:
                if os.waitpid(self.pid, os.WNOHANG) != (0, 0):  # noqa: ASYNC222
                    return
            except ChildProcessError:
                # A dying parent still has it: it is inherited a moment later, or the system reaps it.
                try:
                    os.kill(self.pid, 0)
                except ProcessLookupError:
                    return
            await asyncio.sleep(_REAP_SECONDS)


class ForkServer:
    """Makes the engine processes of one model. Is started when the first is wanted, and again when it has died.

    One that does not answer, or does not come to the end of loading, is killed and counts as dead.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
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

    async def fork(self, replica: int) -> Engine:
        """Start an engine process, which reports when it is ready. Load the model first if need be.

        A fork server that does not answer is replaced: this is tried a few times. Raises `EngineFailed` if there can be
        no engine, and OSError.
        """
        async with self._turn:
            for _ in range(_TRIES):
                try:
                    return await self._fork(self._process or await self._start(), replica)
                except (EOFError, ConnectionError, TimeoutError) as error:
                    logger.error("the fork server does not answer", extra={"reason": repr(error)})
        raise EngineFailed(f"none of {_TRIES} fork servers has answered")

    async def _start(self) -> ForkingProcess:
        self._process = process = await ForkingProcess.start(self.options)
        started = time.monotonic()
        try:
            await process.loaded(self._load_seconds)
        except (EOFError, ConnectionError):
            await self._drop()
            raise EngineFailed("the engine process ended before it was ready") from None
        except TimeoutError:
            await self._drop()
            self._load_seconds *= 2  # if it has not hung, but the machine is that slow, it comes to its end some time
            raise EngineFailed(f"the model was not loaded after {time.monotonic() - started:.0f} s") from None
        except BaseException:
            await self._drop()
            raise
        self._load_seconds = max(_LEAST_LOAD_SECONDS, _TIMES_SLOWER * (time.monotonic() - started))
        self._watch = asyncio.create_task(self._replace(process))
        return process

    async def _replace(self, process: ForkingProcess) -> None:
        """Replace the process when it has died, even if no engine has died and no stream waits; try until it loads."""
        await process.ended()
        if self._process is not process:
            return
        logger.error("the fork server has died, starting another")
        self._process = None
        process.release()
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
                    logger.error("the fork server cannot start", extra={"reason": str(error)})
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _fork(self, process: ForkingProcess, replica: int) -> Engine:
        ours, theirs = socket.socketpair()
        try:
            pid = await process.fork(replica, theirs)
        except EngineFailed:
            ours.close()
            raise
        except BaseException:
            ours.close()
            # A reply that came later would be taken for the next one's.
            await self._drop()
            raise
        finally:
            theirs.close()
        if pid == process.pid:
            self._process = None  # it does not fork, and is the engine itself
            process.release()
        return Engine(pid, *await asyncio.open_unix_connection(sock=ours))

    def acquire(self, user: object) -> None:
        """Keep the fork server running for `user` until it calls `release`."""
        self._users.add(user)

    async def release(self, user: object) -> None:
        """Undo `acquire`; after the last user, return when all engine processes are gone, too."""
        self._users.discard(user)
        if not self._users:
            if self._watch is not None:
                # It may be loading the model, for which nobody waits any more.
                self._watch.cancel()
                await asyncio.gather(self._watch, return_exceptions=True)
            async with self._turn:
                await self._drop(_STOP_SECONDS)

    async def _drop(self, patience: float = 0.0) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end(patience)
