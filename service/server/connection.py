"""HTTP connections with limits for requests, and with a deadline for receiving a request.

Uvicorn itself waits for ever, reads headers of any size, and closes a connection with an unread request in a
way that may destroy the response: here such a connection lingers (RFC 9112, section 9.6). When few file descriptors are
left, idle connections are closed, so that new clients and health checks are served and an engine that dies can be
replaced. Knows nothing of what is requested.

Rests on uvicorn's protocol class, which is private: `tests/service/server/test_uvicorn.py` fails when it changes.
"""

import asyncio
import fcntl
import heapq
import json
import logging
import os
import resource
import termios
from http import HTTPStatus
from typing import Any, ClassVar, Final, NamedTuple

from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 65_536
"""Bytes of a request's URL and headers, and of its trailers; each line counts four for its colon and its end."""
_LINE_BYTES: Final = 4
_DESCRIPTORS_LEFT: Final = 32
"""Kept for engines, files, and connections that arrive before others have been closed."""
_CLOSED_AT_ONCE: Final = 16
_ROOM_SECONDS: Final = 0.02  # a scan of all connections for each new one would take too long
_NO_ROOM_SECONDS: Final = 1.0  # if no connection can be closed now
_BEGUN_SECONDS: Final = 5.0  # time after which a request that is still arriving counts as idle
_LOG_SECONDS: Final = 10.0
_LINGER_SECONDS: Final = 30.0
_LINGER_BYTES: Final = 64 * 1024 * 1024
"""The most that is read and thrown away of a request that has its response already."""
_FRAME_BYTES: Final = 5
_FRAMING_BYTES: Final = 16_384
"""The most that the frames of a body's chunks may exceed its content by: each chunk takes as long as a whole body."""
_HOSTLESS: Final = ("0.9", "1.0")
"""Versions of HTTP whose requests need no Host header."""


class _Refusal(NamedTuple):
    """The response to a request whose head is wrong."""

    status: HTTPStatus
    code: str
    problem: str


_TOO_LARGE: Final = _Refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too_long", f"headers: more than {MAX_HEAD_BYTES} bytes"
)
_SMALL_CHUNKS: Final = _Refusal(
    HTTPStatus.BAD_REQUEST, "invalid_request", "Transfer-Encoding: the chunks are too small"
)
_WRONG_HOST: Final = _Refusal(HTTPStatus.BAD_REQUEST, "invalid_request", "Host: there must be exactly one header")


class _RefusedError(Exception):
    """Ends the parsing of a request; uvicorn then calls `send_400_response`."""


class Connection(HttpToolsProtocol):
    """Uvicorn's connection with limits and deadlines for its client."""

    _logged_at: ClassVar = float("-inf")
    """Time of the last log record about closed connections, of any connection."""
    _makes_room: ClassVar = False
    """True if a scan of all connections is scheduled."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receiving_since: float | None = None
        self._unparsed: int | None = None
        """Bytes of headers and trailers that may be an unfinished line, counted from the second read on; body data
        resets the count. None between requests."""
        self._parsed = 0
        """Bytes of the finished headers, or of the finished trailers."""
        self._in_body = False
        self._body_bytes = self._chunks = 0
        self._lingering_since: float | None = None
        self._discarded = 0
        self._running: RequestResponseCycle | None = None
        self._closes_unread = False
        """True if the response ends the connection although its request has not been read to its end."""
        self._refusal: _Refusal | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._receiving_since = self.loop.time()
        if _is_among_the_last(transport.get_extra_info("socket").fileno()) and not Connection._makes_room:
            Connection._makes_room = True
            # Later: nothing has been read yet of connections that were accepted together.
            self.loop.call_later(_ROOM_SECONDS, self._make_room)

    def _make_room(self) -> None:
        """Close some idle connections, again and again until enough descriptors are free.

        Else a crowd that holds connections and says nothing would keep out health checks and new engines.
        """
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
        is_silent = self._unparsed is None and self.cycle is None
        rank = 0 if is_silent else 1 if self._unparsed is None else 2
        return rank, self._receiving_since or 0.0

    def data_received(self, data: bytes) -> None:
        if self._lingering_since is not None:
            self._discarded += len(data)
            if self._discarded > _LINGER_BYTES:
                self.transport.abort()
            return
        if self.transport.is_closing():
            return  # nothing that follows a refused request is read
        if self._receiving_since is None:
            self._receiving_since = self.loop.time()
        if self._unparsed is not None:
            self._unparsed += len(data)
        super().data_received(data)
        # After the call: one read may end the headers and hold much of the body.
        if (self._unparsed or 0) > MAX_HEAD_BYTES and self._lingering_since is None:
            self._refusal = _TOO_LARGE
            self.send_400_response(_TOO_LARGE.problem)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._unparsed = self._parsed = 0
        self._in_body = False
        self._body_bytes = self._chunks = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _LINE_BYTES)
        # Trailers are read and ignored: the application has seen the headers already.
        if not self._in_body:
            super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)

    def _refuse(self, refusal: _Refusal) -> None:
        self._refusal = refusal
        raise _RefusedError

    def on_headers_complete(self) -> None:
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or not (hosts or self.parser.get_http_version() in _HOSTLESS):
            self._refuse(_WRONG_HOST)
        super().on_headers_complete()
        self._unparsed = self._parsed = 0
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._unparsed = 0
        self._body_bytes += len(body)

    def on_chunk_header(self) -> None:
        """Count a chunk of a body. Called by the parser."""
        self._chunks += 1
        if _FRAME_BYTES * self._chunks > self._body_bytes + _FRAMING_BYTES:
            self._refuse(_SMALL_CHUNKS)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._receiving_since = self._unparsed = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._closes_unread and not self.transport.is_closing():
            self._linger()
            return
        if self._receiving_since is not None:  # reading of the next request was paused until now
            self._receiving_since = self.loop.time()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, self._ending(app, cycle))

    def _ending(self, app: ASGI3Application, cycle: RequestResponseCycle) -> ASGI3Application:
        """Return an application whose response ends the connection where the protocol needs that.

        These are responses that begin before their request has been read, and those of unknown length for clients of
        HTTP/1.0, to which RFC 9112 (section 6.1) forbids the chunks that uvicorn sends.
        """
        is_old = cycle.scope["http_version"] in _HOSTLESS

        async def call(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            if not (cycle.more_body or is_old):
                await app(scope, receive, send)
                return
            has_length = True

            async def send_ending(message: ASGISendEvent) -> None:
                nonlocal has_length
                if message["type"] == "http.response.start":
                    headers = [*message.get("headers", ())]
                    has_length = any(name.lower() == b"content-length" for name, _ in headers)
                    if is_old and not has_length:
                        cycle.chunked_encoding = False
                    if cycle.more_body:
                        await send({**message, "headers": [*headers, (b"connection", b"close")]})
                        # Else uvicorn would close the connection at once, and the system reset it.
                        cycle.keep_alive = self._closes_unread = True
                        return
                elif message["type"] == "http.response.body" and is_old and not has_length:
                    # Uvicorn compares the length of the body with the declared one.
                    cycle.expected_content_length = len(message.get("body", b""))
                await send(message)

            await app(scope, receive, send_ending)

        return call

    def _linger(self) -> None:
        """End the sending side, and throw away what still comes, until the client has closed its side, too.

        A connection that is closed with unread data is reset, which may destroy the response on its way.
        """
        self._unset_keepalive_if_required()
        self._lingering_since = self.loop.time()
        for cycle in (self._running, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.waiting_for_100_continue = False  # nothing can be written any more
                cycle.message_event.set()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        # Uvicorn tells the request that came last, which waits for the one that is running.
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer a request whose head is wrong, and close the connection.

        Uvicorn calls this for what is no HTTP, with a message of its own.
        """
        refusal = self._refusal or _Refusal(HTTPStatus.BAD_REQUEST, "invalid_request", msg)
        # A response that has begun is cut: another one in the middle of it would be read as a part of it.
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = json.dumps({"error": refusal.problem, "code": refusal.code}).encode()
            head = (
                f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self._linger()

    def close_if_overdue(self, seconds: float) -> None:
        """Close the connection if its request takes longer than `seconds` to arrive. Called about once a second."""
        now = self.loop.time()
        has_lingered = self._lingering_since is not None and now - self._lingering_since > _LINGER_SECONDS
        since = None if self._is_answering() else self._receiving_since
        if has_lingered or (since is not None and now - since > seconds):
            self.transport.abort()

    def _is_idle(self, now: float) -> bool:
        """Return True if the client waits for no response, and no request of it has just begun to arrive."""
        if self._lingering_since is not None:
            return True
        if self._is_answering() or self.transport.get_write_buffer_size() or self.transport.is_closing():
            return False
        # A busy loop may not have read yet what has come.
        if any(fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4))):
            return False
        since = now if self._receiving_since is None else self._receiving_since
        return self._unparsed is None or now - since > _BEGUN_SECONDS

    def _is_answering(self) -> bool:
        return bool(self.pipeline) or (
            self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        )


def _is_among_the_last(descriptor: int) -> bool:
    """Return True for a high descriptor: the system assigns the lowest free number, so few are left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptor >= limit - _DESCRIPTORS_LEFT


def _are_few_left() -> bool:
    """Return True if a new descriptor would be among the last."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return True
    os.close(descriptor)
    return _is_among_the_last(descriptor)
