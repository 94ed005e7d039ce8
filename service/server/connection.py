"""Connections that hold a place for nothing: a request that never comes to its end, an answer that nobody takes.

Uvicorn itself waits for ever for both. When few descriptors are left, those go that wait for no answer, so that whoever
comes is heard, probes too, and an engine that dies can be replaced. Knows nothing of what is asked.
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
_DESCRIPTORS_LEFT: Final = 32  # for engines, files, and connections that come before others have been cut
_CUT_AT_ONCE: Final = 16
_ROOM_SECONDS: Final = 0.02  # looking through all connections for each new one would take the loop's time
_NO_ROOM_SECONDS: Final = 1.0  # where nobody can be cut now
_BEGUN_SECONDS: Final = 5.0  # that a request may take before it is counted among the idle
_LOG_SECONDS: Final = 10.0


def _is_among_the_last(descriptor: int) -> bool:
    """The system gives the lowest number that is free: a high one tells that few are left."""
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
    """Uvicorn's connection, which can tell whether its client is overdue."""

    _logged_at: ClassVar = float("-inf")
    """When it was last said that connections are cut, whichever."""
    _makes_room: ClassVar = False
    """Whether a look through all connections is to come."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receiving_since: float | None = None
        self._head_bytes: int | None = None
        """Of a request whose headers have begun to come, from the second read on, and of its body whatever is read
        without any of it: the trailers of one in chunks are headers, too. None between requests."""
        self._unsent = 0
        self._stuck_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._receiving_since = self.loop.time()
        if _is_among_the_last(transport.get_extra_info("socket").fileno()) and not Connection._makes_room:
            Connection._makes_room = True
            # Not at once: of those accepted together, nothing has been read yet.
            self.loop.call_later(_ROOM_SECONDS, self._make_room)

    def _make_room(self) -> None:
        """Cut some of those who wait for no answer, again and again until enough descriptors are free."""
        if not _are_few_left():
            Connection._makes_room = False
            return
        now = self.loop.time()
        idle = [each for each in self.connections if isinstance(each, Connection) and each._is_idle(now)]
        for each in heapq.nsmallest(_CUT_AT_ONCE, idle, key=Connection._worth):
            each.transport.abort()
        if now - Connection._logged_at > _LOG_SECONDS:
            Connection._logged_at = now
            facts = {"connections": len(self.connections), "idle": len(idle)}
            logger.warning("few descriptors are left, idle connections are cut", extra=facts)
        self.loop.call_later(_ROOM_SECONDS if idle else _NO_ROOM_SECONDS, self._make_room)

    def _worth(self) -> tuple[int, float]:
        """Who never sent anything is cut first, then who has an answer, then who is slow to ask; of each the oldest."""
        is_silent = self._head_bytes is None and self.cycle is None
        rank = 0 if is_silent else 1 if self._head_bytes is None else 2
        return rank, self._receiving_since or 0.0

    def data_received(self, data: bytes) -> None:
        if self._receiving_since is None:
            self._receiving_since = self.loop.time()
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        # Not before: a read may end the headers and bring much of the body.
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
        if self._receiving_since is not None:  # the next request was not read on until now
            self._receiving_since = self.loop.time()

    def cut_if_overdue(self, receive_seconds: float, send_seconds: float) -> None:
        """Called about once a second. Cuts a client whose request takes longer than `receive_seconds` to come, headers
        and body, and one that has taken nothing of its answer for `send_seconds`.
        """
        now = self.loop.time()
        if self._is_overdue(now, receive_seconds) or self._is_stuck(now, send_seconds):
            self.transport.abort()

    def _is_overdue(self, now: float, seconds: float) -> bool:
        return self._receiving_since is not None and not self._is_answering() and now - self._receiving_since > seconds

    def _is_idle(self, now: float) -> bool:
        """What is answered may still be on its way, and of what has begun, the rest."""
        if self._is_answering() or self.transport.get_write_buffer_size() or self.transport.is_closing():
            return False
        since = now if self._receiving_since is None else self._receiving_since
        return self._head_bytes is None or now - since > _BEGUN_SECONDS

    def _is_answering(self) -> bool:
        return bool(self.pipeline) or (
            self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        )

    def _is_stuck(self, now: float, seconds: float) -> bool:
        # Only here nothing is added to what is unsent, so that any change of it is a reader's doing.
        is_full = self.flow.write_paused or self.transport.is_closing()
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size() if is_full else 0
        if not self._unsent:
            self._stuck_since = None
        elif self._stuck_since is None or self._unsent != before:
            self._stuck_since = now
        return self._stuck_since is not None and now - self._stuck_since > seconds
