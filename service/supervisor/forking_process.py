"""The process that has loaded a model and forks engines, at the other end of a socket."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from service.engine.channel import Frames
from service.engine.messages import EngineOptions, Failed, Forked, ForkReply
from service.errors import EngineFailed
from service.interpreter import python_command
from service.supervisor.watchdog import Watchdog

_READ_BYTES: Final = 1 << 16
_FORK_SECONDS: Final = 30.0  # it takes milliseconds, but a loaded machine may not come to it
_STANDSTILL_SECONDS: Final = 2.0
_CHECK_SECONDS: Final = 0.5


class UnusableCheckpoint(EngineFailed):
    """The files of a checkpoint are damaged, or others than at the start of the server."""


class ForkingProcess:
    """The process `python -m service.engine.worker`, and the socket that carries requests for forks.

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
        command = python_command("-m", "service.engine.worker", str(theirs.fileno()))
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
        while not (bodies := self._frames.feed(data := await self._received())):
            if not data:
                raise EOFError("it has ended")
        reply: ForkReply = msgspec.msgpack.decode(bodies[0], type=ForkReply)
        return reply

    async def _received(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._control, _READ_BYTES)

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
