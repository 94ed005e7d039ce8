"""HTTP connections with deadlines for receiving a request and for sending a response.

Uvicorn itself waits for ever for both. When few file descriptors are left, idle connections are closed, so that new
clients and health checks are served and an engine that dies can be replaced. Knows nothing of the requests themselves.
"""

import asyncio
import heapq
import logging
import os
import resource
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logger = logging.getLogger(__name__)

_MAX_HEAD_BYTES: Final = 65_536
_DESCRIPTORS_LEFT: Final = 32  # for engines, files, and connections that arrive before others have been closed
_CLOSED_AT_ONCE: Final = 16
_ROOM_SECONDS: Final = 0.02  # a scan of all connections for each new one would take too long
_NO_ROOM_SECONDS: Final = 1.0  # if no connection can be closed now
_BEGUN_SECONDS: Final = 5.0  # time after which a request that is still arriving counts as idle
_LOG_SECONDS: Final = 10.0


def _is_among_the_last(descriptor: int) -> bool:
    """Return True for a high descriptor: the system assigns the lowest free number, so few are left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptor >= limit - _DESCRIPTORS_LEFT


def _are_few_left() -> bool:
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return True
    os.close(descriptor)
    return _is_among_the_last(descriptor)


class Connection(HttpToolsProtocol):
    """Uvicorn's connection with deadlines for its client."""

    _logged_at: ClassVar = float("-inf")
    """Time of the last log record about closed connections, of any connection."""
    _makes_room: ClassVar = False
    """True if a scan of all connections is scheduled."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receiving_since: float | None = None
        self._head_bytes: int | None = None
        """Bytes of headers and trailers, counted from the second read on; body data resets the count. None between
        requests."""
        self._unsent = 0
        self._stuck_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._receiving_since = self.loop.time()
        if _is_among_the_last(transport.get_extra_info("socket").fileno()) and not Connection._makes_room:
            Connection._makes_room = True
            # Later: nothing has been read yet of connections that were accepted together.
            self.loop.call_later(_ROOM_SECONDS, self._make_room)

    def _make_room(self) -> None:
        """Close some idle connections, again and again until enough descriptors are free."""
        if not _are_few_left():
            Connection._makes_room = False
            return
        now = self.loop.time()
        idle = [each for each in self.connections if isinstance(each, Connection) and each._is_idle(now)]
        for each in heapq.nsmallest(_CLOSED_AT_ONCE, idle, key=Connection._priority):
            each.transport.abort()
        if now - Connection._logged_at > _LOG_SECONDS:
            Connection._logged_at = now
            facts = {"connections": len(self.connections), "idle": len(idle)}
            logger.warning("few descriptors are left, idle connections are closed", extra=facts)
        self.loop.call_later(_ROOM_SECONDS if idle else _NO_ROOM_SECONDS, self._make_room)

    def _priority(self) -> tuple[int, float]:
        """Order of closing: clients that sent nothing, clients between requests, slow senders; of each the oldest."""
        is_silent = self._head_bytes is None and self.cycle is None
        rank = 0 if is_silent else 1 if self._head_bytes is None else 2
        return rank, self._receiving_since or 0.0

    def data_received(self, data: bytes) -> None:
        if self._receiving_since is None:
            self._receiving_since = self.loop.time()
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        # After the call: one read may end the headers and hold much of the body.
        if (self._head_bytes or 0) > _MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("Headers or trailers are too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._receiving_since = self._head_bytes = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._receiving_since is not None:  # reading of the next request was paused until now
            self._receiving_since = self.loop.time()

    def close_if_overdue(self, receive_seconds: float, send_seconds: float) -> None:
        """Close the connection if its request takes longer than `receive_seconds` to arrive, headers and body.

        Close it too if its client has read no response data for `send_seconds`. Called about once a second.
        """
        now = self.loop.time()
        if self._is_overdue(now, receive_seconds) or self._is_stuck(now, send_seconds):
            self.transport.abort()

    def _is_overdue(self, now: float, seconds: float) -> bool:
        return self._receiving_since is not None and not self._is_answering() and now - self._receiving_since > seconds

    def _is_idle(self, now: float) -> bool:
        """Return True if the client waits for no response, and no request of it has just begun to arrive."""
        if self._is_answering() or self.transport.get_write_buffer_size() or self.transport.is_closing():
            return False
        since = now if self._receiving_since is None else self._receiving_since
        return self._head_bytes is None or now - since > _BEGUN_SECONDS

    def _is_answering(self) -> bool:
        return bool(self.pipeline) or (
            self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        )

    def _is_stuck(self, now: float, seconds: float) -> bool:
        # While sending is paused, nothing is added to the buffer: any change of its size is progress of the client.
        is_full = self.flow.write_paused or self.transport.is_closing()
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size() if is_full else 0
        if not self._unsent:
            self._stuck_since = None
        elif self._stuck_since is None or self._unsent != before:
            self._stuck_since = now
        return self._stuck_since is not None and now - self._stuck_since > seconds
