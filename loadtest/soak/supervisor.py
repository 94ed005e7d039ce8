"""A server that is started anew whenever its HTTP process ends, as a service manager does."""

import asyncio
import math
import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from loadtest.local_server import Server, free_port, start_server

_POLL_SECONDS: Final = 0.05
_RESTART_SECONDS: Final = 0.1


class Supervisor:
    """The server, on one port and with one log over all its lives. A life that nobody ended is a problem."""

    def __init__(self, flags: Sequence[str], log: Path) -> None:
        self._flags = flags
        self._port = free_port()
        self.log = log
        self.problems: list[str] = []
        self.ends: list[float] = []
        """Times at which the HTTP process was seen to have ended, killed or by itself."""
        self._is_killed = False
        """True from the kill until the end is seen: a busy machine may let some connections be opened meanwhile."""
        self._is_starting = False
        """True from an end until connections are accepted again."""
        self._up_since = -math.inf
        self._sessions: list[int] = []
        self.server = self._start()

    def _start(self) -> Server:
        server = start_server(self._flags, self._port, self.log)
        self._sessions.append(server.pid)
        return server

    def kill(self) -> None:
        """Kill the HTTP process, alone."""
        self._is_killed = True
        os.kill(self.server.pid, signal.SIGKILL)

    def was_down_since(self, moment: float) -> bool:
        """Return True if connections were cut or refused at or after `moment`, or are now."""
        return self._is_killed or self._is_starting or self._up_since >= moment

    async def supervise(self) -> None:
        """Start the server again whenever it has ended, until cancelled."""
        while True:
            if (status := self.server.status) is not None:
                self.ends.append(time.monotonic())
                if not self._is_killed:
                    self.problems.append(f"the server ended by itself, with status {status}")
                self._is_killed, self._is_starting = False, True
                await asyncio.sleep(_RESTART_SECONDS)
                self.server = self._start()
            elif self._is_starting and await self._accepts():
                self._is_starting, self._up_since = False, time.monotonic()
            await asyncio.sleep(_POLL_SECONDS)

    async def _accepts(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.transport.abort()
        return True

    def orphans(self) -> int:
        """Return the number of processes that outlive the HTTP process that has started them."""
        return len(_members(self._sessions[:-1]))

    def end(self) -> None:
        """End the server of now, and whatever is left of earlier ones."""
        self.server.end()
        for pid in _members(self._sessions):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def supervisor(flags: Sequence[str], log: Path) -> Iterator[Supervisor]:
    """Start a server, ready; everything that it has started is ended with the context."""
    started = Supervisor(flags, log)
    try:
        started.server.wait_until_ready()
        yield started
    finally:
        started.end()


def _members(sessions: Collection[int]) -> list[int]:
    """Return the process ids of these sessions."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError):
            if os.getsid(pid) in sessions:
                found.append(pid)
    return found
