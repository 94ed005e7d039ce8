"""The HTTP process's handles on processes at the other ends of sockets: engines, and those that fork them."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from typing import Final, NamedTuple

import msgspec
import psutil

from service.engine.messages import Failed, Forked, ForkReply, Frames
from service.errors import EngineFailed
from service.process.interpreter import python_command

_READ_BYTES: Final = 1 << 16
_FORK_SECONDS: Final = 30.0  # it takes milliseconds, but a loaded machine may not come to it
_STANDSTILL_SECONDS: Final = 2.0
_CHECK_SECONDS: Final = 0.5
_OVERDUE_CHECKS: Final = 2
_WOULD_WORK: Final = frozenset({psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP})
"""States of a process that waits for processor time, or for memory from the disk: no fault of its own."""
_REAP_SECONDS: Final = 0.01
_REAP_TRIES: Final = 500


class UnusableCheckpoint(EngineFailed):
    """The files of a checkpoint are damaged, or others than at the start of the server."""


async def reap(pid: int) -> None:
    """Reap a process that has ended: the first process of a container inherits forks whose parent has died."""
    for _ in range(_REAP_TRIES):
        try:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):  # noqa: ASYNC222
                return
        except ChildProcessError:
            # A dying parent still has it: it is inherited a moment later, or the system reaps it.
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
        await asyncio.sleep(_REAP_SECONDS)


async def _has_ended(reading: asyncio.Task[None], seconds: float) -> bool:
    """Wait at most so long. In a task that has been cancelled, asyncio.timeout of Python 3.11.2 does not time out."""
    return bool((await asyncio.wait({reading}, timeout=seconds))[0])


class Watchdog:
    """Regular checks of one silent engine, or of a process that is to fork one.

    A step, however long, takes processor time. A process that takes none was stopped, or waits for itself: this shows
    within seconds. A busy silent one has hung after `timeout_seconds`.
    """

    def __init__(self, pid: int, standstill_seconds: float, *, may_sleep: bool = False) -> None:
        """A process that may sleep stands still only while it is stopped."""
        self._pid = pid
        self._may_sleep = may_sleep
        self._standstill_seconds = standstill_seconds
        self._used_seconds = -1.0  # the first check only records it
        self._moved_at = 0.0
        self._overdue = 0

    def is_hung(self, heard_at: float, timeout_seconds: float) -> bool:
        """Return True if the process, silent since `heard_at` on the monotonic clock, has hung."""
        now = time.monotonic()
        if self._works():
            self._moved_at = now
        stands_still = now - max(heard_at, self._moved_at) > self._standstill_seconds
        # One check is not enough: if this process was delayed, it has to read the reports first.
        self._overdue = self._overdue + 1 if stands_still or now - heard_at > timeout_seconds else 0
        return self._overdue >= _OVERDUE_CHECKS

    def _works(self) -> bool:
        """Return True if the process has taken processor time since the last check, or waits for some."""
        try:
            process = psutil.Process(self._pid)
            times, state = process.cpu_times(), process.status()
        except psutil.Error:
            return False  # it has ended, which will be read
        except OSError:
            return True  # this process has no free descriptor: no fault of that one
        before, self._used_seconds = self._used_seconds, float(times.user + times.system)
        sleeps = self._may_sleep and state != psutil.STATUS_STOPPED
        return self._used_seconds != before or state in _WOULD_WORK or sleeps


class Engine:
    """An engine process at the other end of a socket.

    `reports` end with the process, and the process ends with `commands`.
    """

    def __init__(self, pid: int, reports: asyncio.StreamReader, commands: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.reports = reports
        self.commands = commands

    def kill(self) -> None:
        """Kill the process; only while `reports` has not ended, because its id may be another process's afterwards."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    async def end(self, patience: float) -> None:
        """Wait until the process has ended; kill it after so many seconds."""
        if not self.reports.at_eof():
            reading = asyncio.create_task(self._read_to_the_end())
            if not await _has_ended(reading, patience):
                self.kill()
                reading.cancel()
        self.commands.close()

    async def _read_to_the_end(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            if not self.commands.is_closing():
                self.commands.write_eof()
            while await self.reports.read(_READ_BYTES):
                pass


class LaunchedProcess(NamedTuple):
    """A process that imports what all engines share, and the socket that ends it when it is closed."""

    pid: int
    control: socket.socket
    since: float
    """Monotonic time, seconds."""

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.control.close()


def launch(log_level: str, log_format: str, *, forks: bool) -> LaunchedProcess:
    """Start `python -m service.engine`; no event loop need run yet. Raises OSError."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.set_inheritable(True)
    command = python_command("-m", "service.engine", str(theirs.fileno()), log_level, log_format)
    if not forks:
        command.append("alone")
    nothing_to_read = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    prints_to_log = (os.POSIX_SPAWN_DUP2, 2, 1)  # a library that prints
    try:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[nothing_to_read, prints_to_log])
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return LaunchedProcess(pid, ours, time.monotonic())


class ForkingProcess:
    """A process that forks, and the socket that carries requests for forks and ends with the process.

    It is used by one request at a time, because a reply does not say to which it belongs.
    """

    def __init__(self, pid: int, control: socket.socket, since: float | None = None) -> None:
        """It was started at the monotonic time `since`, or now."""
        self.pid = pid
        self._control = control
        self._since = time.monotonic() if since is None else since
        self._replies: asyncio.Queue[ForkReply | None] = asyncio.Queue()
        """None comes last, when the process has ended."""
        self._reading = asyncio.create_task(self._read())

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._since

    async def fork(self, number: int) -> tuple[int, socket.socket]:
        """Return the id of a fork, and the socket whose other end it has.

        Raises `EngineFailed` if there can be none; EOFError or ConnectionError if this process is gone, TimeoutError if
        it has hung.
        """
        if self._reading.done():
            raise EOFError("it has ended")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            socket.send_fds(self._control, [bytes([number])], [theirs.fileno()])
            reply = await self._reply(_FORK_SECONDS)
            if isinstance(reply, Failed):
                raise EngineFailed(reply.reason)
            assert isinstance(reply, Forked)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return reply.pid, ours

    async def loaded(self, seconds: float) -> None:
        """Wait until it has loaded what its forks share.

        Raises `EngineFailed` with the reported reason, EOFError if the process ends, and TimeoutError if loading takes
        longer than `seconds` or the process is stopped.
        """
        # It may sleep for long: another process compiles the operators.
        reply = await self._reply(seconds, may_sleep=True)
        if isinstance(reply, Failed):
            raise UnusableCheckpoint(reply.reason) if reply.checkpoint else EngineFailed(reply.reason)

    async def _reply(self, seconds: float, *, may_sleep: bool = False) -> ForkReply:
        """Return the next reply, unless the process ends or hangs."""
        waiting = asyncio.create_task(self._replies.get())
        watchdog = Watchdog(self.pid, _STANDSTILL_SECONDS, may_sleep=may_sleep)
        started = time.monotonic()
        try:
            while not (await asyncio.wait({waiting}, timeout=_CHECK_SECONDS))[0]:
                if watchdog.is_hung(started, seconds):
                    raise TimeoutError(f"no answer after {time.monotonic() - started:.1f} s")
        finally:
            waiting.cancel()
        if (reply := waiting.result()) is None:
            raise EOFError("it has ended")
        return reply

    async def _read(self) -> None:
        """Read all replies, until the process has ended."""
        receive = asyncio.get_running_loop().sock_recv
        frames = Frames()
        try:
            while data := await receive(self._control, _READ_BYTES):
                for body in frames.feed(data):
                    self._replies.put_nowait(msgspec.msgpack.decode(body, type=ForkReply))
        except ConnectionError:
            pass
        finally:
            self._replies.put_nowait(None)

    async def ended(self) -> None:
        """Wait until the process has ended, and reap it."""
        await asyncio.wait({self._reading})
        self._control.close()
        await reap(self.pid)

    def release(self) -> None:
        """Ask for nothing more: it ends when its forks have ended."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def forget(self) -> None:
        """Close the socket to a process that has become what it was to fork."""
        self._reading.cancel()
        # Closed before the loop has forgotten it, its number could be another socket's, and be read here.
        await asyncio.wait({self._reading})
        self._control.close()

    async def end(self, patience: float) -> None:
        """Wait for the end for so many seconds, then kill the process; its forks go on."""
        self.release()
        if not await _has_ended(self._reading, patience):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        await self.ended()
