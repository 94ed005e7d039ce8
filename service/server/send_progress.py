"""The progress of a client in reading its response, as far as the server's machine can see it.

The system takes megabytes for a client that reads nothing, and a buffer that empties in steps hides one that reads
slowly. So this counts bytes that the client's machine has confirmed, where the system reports them (TCP on Linux).
"""

import asyncio
import fcntl
import socket
import struct
import termios
from typing import Final, NamedTuple

_TCP_INFO_BYTES: Final = 128
_BYTES_ACKED: Final = struct.Struct("=120xQ")
"""`tcpi_bytes_acked` of Linux' `struct tcp_info`."""
_COUNT: Final = struct.Struct("=i")


class _Sent(NamedTuple):
    """The unread bytes of a response, and a number that changes whenever the client reads some."""

    unread: int
    mark: int


class SendProgress:
    """Tells a client that reads its response slowly from one that reads nothing."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._socket: socket.socket | None = transport.get_extra_info("socket")
        self._mark = 0
        self._stuck_since: float | None = None

    def restart(self) -> None:
        """Forget the time that has passed since the client read something."""
        self._stuck_since = None

    def is_stuck(self, now: float, seconds: float, *, is_full: bool) -> bool:
        """Return True if the client has read none of the unread bytes for `seconds`. Called about once a second.

        `is_full` is True if nothing is added to the transport's buffer at the moment.
        """
        unread, mark = self._confirmed() or self._buffered(is_full)
        if not unread:
            self._stuck_since = None
        elif self._stuck_since is None or mark != self._mark:
            self._stuck_since = now
        self._mark = mark
        return self._stuck_since is not None and now - self._stuck_since > seconds

    def _confirmed(self) -> _Sent | None:
        """Return the state of the system's connection; None if the system does not report it."""
        if self._socket is None or not hasattr(socket, "TCP_INFO"):
            return None
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            queued = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, _COUNT.pack(0))
            [confirmed] = _BYTES_ACKED.unpack(info)
        except (OSError, struct.error):  # a Unix socket, another system, a connection that has just ended
            return None
        return _Sent(self._transport.get_write_buffer_size() + _COUNT.unpack(queued)[0], confirmed)

    def _buffered(self, is_full: bool) -> _Sent:
        """Return the size of the transport's buffer, whose every change is progress while nothing is added."""
        size = self._transport.get_write_buffer_size() if is_full else 0
        return _Sent(size, size)
