"""Live translation: a WebSocket, or server-sent events with requests that change the source; and followers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Request, WebSocket
from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from service.access.charges import Caller
from service.api.context import CallerDependency, ServiceContext, ServiceDependency, address_of, key_before_body
from service.api.live_messages import EVENT_NAMES, LiveChange, LiveChanged, LiveStart
from service.api.openapi import BAD_INPUT, CALLER_ERRORS, ErrorResponse, Responses, body_of, errors_of
from service.api.request_body import has_more_values, parse_body, validated
from service.api.sse import encode, encode_unnumbered, stream_options
from service.api.translate import stored_glossary
from service.errors import InvalidRequest, NotReady, ServiceError
from service.live.account import LiveAccount
from service.live.event_log import EventLog
from service.live.events import Event
from service.live.session import LiveSession
from service.text.glossary import MAX_ENTRIES

router = APIRouter(tags=["translation"])

_FIRST_MESSAGE_SECONDS: Final = 20.0
_LEFT_ON_PURPOSE: Final = (1000, 1001)
_CLOSE_CODES: Final = {429: 1013, 503: 1012, 500: 1011}
"""WebSocket's codes for the status of an error; 1008 for all others."""
_STATUSES: Final = (*CALLER_ERRORS, 400, 404, 500)
_Events = AsyncIterator[tuple[int | None, Event]]
"""Events with their numbers; drafts have none."""


_EVENTS: Final[Responses] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "object"}}},
        "description": "Events `start`, `commit`, `draft`, `segment`, `revision`, `kept`, and `done` or `error` at the "
        "end; all but `start`, `draft` and `error` have an id.",
    }
}


class _Live(NamedTuple):
    """A session for one connection."""

    name: str
    session: LiveSession
    known: int
    """The number of events that the client has."""

    def start(self) -> dict[str, object]:
        return {"session": self.name, "source_end": self.session.source.end}


@router.websocket("/translate/live")
async def live_socket(websocket: WebSocket) -> None:
    """Translate text that grows; the messages are those of the two routes below, as JSON."""
    service: ServiceContext = websocket.app.state.service
    await _check_origin(websocket)
    await websocket.accept()
    try:
        start = _parsed(LiveStart, await asyncio.wait_for(websocket.receive(), _FIRST_MESSAGE_SECONDS))
        caller = await service.access.admit(key_before_body(websocket) or start.key(), address_of(websocket))
        with service.access.stream(caller):
            live = await _open(service, caller, start, start.last_event)
            await _send(websocket, "start", live.start())
            await _converse(service, websocket, live, start)
    except TimeoutError:
        await _close(websocket, InvalidRequest("message", "none came in time"))
    except WebSocketDisconnect as left:
        websocket.state.outcome = "ok" if left.code in _LEFT_ON_PURPOSE else "cancelled"
    except ServiceError as error:
        await _close(websocket, error)


@router.post(
    "/translate/live",
    summary="Translate text that still grows, as server-sent events",
    response_class=EventSourceResponse,
    responses={**errors_of(ErrorResponse, *_STATUSES, own=BAD_INPUT), **_EVENTS},
    openapi_extra=body_of(LiveStart),
)
async def live_stream(request: Request, service: ServiceDependency, caller: CallerDependency) -> EventSourceResponse:
    """Open a session, or go on with one: events `start`, `commit`, `draft`, `segment`, `revision`, `kept`, `done`.

    The same path is a WebSocket. `Last-Event-ID` counts where a session goes on.
    """
    start = await parse_body(request, LiveStart)
    last_event = request.headers.get("last-event-id", "")
    if last_event and not (last_event.isascii() and last_event.isdecimal() and len(last_event) < 16):
        raise InvalidRequest("Last-Event-ID", "must be an event's id")
    with ExitStack() as stack:
        stack.enter_context(service.access.stream(caller))
        live = await _open(service, caller, start, int(last_event or start.last_event))
        await _change(live.session, start)
        return _LiveStream(live.start(), _events(live.session.log, live.known), stack.pop_all())


@router.post(
    "/translate/live/{session}",
    summary="Change the source of a live session",
    responses=errors_of(ErrorResponse, *_STATUSES, own=BAD_INPUT),
    openapi_extra=body_of(LiveChange),
)
async def live_change(
    session: str, request: Request, service: ServiceDependency, caller: CallerDependency
) -> LiveChanged:
    """Append text, replace the end, mark it as final, or end the session; returns the source's length."""
    change = await parse_body(request, LiveChange)
    found = service.live.find(session, caller.identity)
    await _change(found, change)
    return LiveChanged(source_end=found.source.end)


@router.get(
    "/translate/live/{session}",
    summary="Follow a live session, as server-sent events",
    response_class=EventSourceResponse,
    responses={**errors_of(ErrorResponse, 404), **_EVENTS},
)
async def live_follow(session: str, service: ServiceDependency) -> EventSourceResponse:
    """Read the events of a session by its id or alias, from the oldest that is kept; no key is needed to read.

    `Last-Event-ID` is ignored: an alias may have moved to another session.
    """
    return _LiveStream({}, _events(service.live.followed(session).log, None), ExitStack())


async def _open(service: ServiceContext, caller: Caller, start: LiveStart, last_event: int) -> _Live:
    """Find the session that a client names, or open one."""
    if start.session is not None:
        return _Live(start.session, service.live.find(start.session, caller.identity), last_event)
    await service.check_open()
    with service.choosing_model():
        request = await asyncio.to_thread(start.request, caller.identity, service.translator.limits.max_beam_size)
        if start.glossary_id:
            codes = service.translator.direction(request.source, request.target)
            glossary = await stored_glossary(service, caller, [start.glossary_id], *codes)
            request = request.with_glossary(glossary)
        account = LiveAccount(service.access, caller, request.start.source_start)
        return _Live(*await service.live.open(request, account), 0)


async def _change(session: LiveSession, change: LiveChange) -> None:
    """Do what a message says, after its new characters have been counted."""
    async with session.account.one_change:
        await _change_alone(session, change)


async def _change_alone(session: LiveSession, change: LiveChange) -> None:
    if session.is_over:
        raise InvalidRequest("session", "has ended")
    if change.at is not None and change.at != session.source.end:
        raise InvalidRequest("at", f"the source has {session.source.end} characters: another writer has changed it")
    if change.append is not None:
        await session.account.reach(session.source.end + len(change.append))
        session.append(change.append)
    elif change.replace_from is not None:
        await session.account.reach(change.replace_from + len(change.text))
        session.replace(change.replace_from, change.text)
    if change.final is not None and change.final is not False:
        session.finish(None if change.final is True else change.final)
    if change.end:
        session.end()


async def _events(log: EventLog, known: int | None) -> _Events:
    """Yield the events after the first `known`, or a follower's if it is None. Raises the error that ends them."""
    reader, known = log.follow() if known is None else (log.attach(), known)
    shown = ""
    try:
        while True:
            events, draft = await log.next(reader, known, shown)
            if not events and draft is None:
                return
            for known, event in enumerate(events, known + 1):  # noqa: B020  it goes on from there
                yield known, event
            shown = "" if draft is None else draft.text
            if draft is not None:
                yield None, draft
    finally:
        log.detach(reader)


class _LiveStream(EventSourceResponse):
    """The events of a session; the session outlives it for a while, so that a client can come back."""

    def __init__(self, start: Mapping[str, object], events: _Events, open_stream: ExitStack) -> None:
        self._start = start
        self._events = events
        self._open_stream = open_stream
        super().__init__(self._chunks(), **stream_options())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._open_stream:
            await super().__call__(scope, receive, send)

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield encode_unnumbered("start", self._start)
        try:
            async for number, event in self._events:
                name = EVENT_NAMES[type(event)]
                yield encode_unnumbered(name, event) if number is None else encode(number, name, event)
        except ServiceError as error:
            yield encode_unnumbered("error", {"error": error.message, "code": error.code})


async def _converse(service: ServiceContext, websocket: WebSocket, live: _Live, start: LiveStart) -> None:
    """Read changes and send events until one side ends. Raises `WebSocketDisconnect` and `ServiceError`."""
    reading = asyncio.create_task(_read(websocket, live.session, start))
    writing = asyncio.create_task(_write(websocket, live))
    try:
        await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
        for each in (writing, reading):
            if each.done():
                each.result()
        service.live.close(live.name)
        await websocket.close()
    except WebSocketDisconnect as left:
        if left.code in _LEFT_ON_PURPOSE:
            service.live.close(live.name)
        raise
    finally:
        for each in (reading, writing):
            each.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)


async def _read(websocket: WebSocket, session: LiveSession, start: LiveStart) -> None:
    """Do what messages say; a wrong one is answered by an error and changes nothing."""
    change: LiveChange | None = start
    while True:
        try:
            await _change(session, change or _parsed(LiveChange, await websocket.receive()))
        except NotReady:
            raise
        except ServiceError as error:
            await _send(websocket, "error", {"error": error.message, "code": error.code})
        change = None


async def _write(websocket: WebSocket, live: _Live) -> None:
    async for number, event in _events(live.session.log, live.known):
        fields = msgspec.to_builtins(event)
        await _send(websocket, EVENT_NAMES[type(event)], fields if number is None else {"id": number, **fields})


def _parsed(model: type[Any], message: Any) -> Any:
    """Parse a message of a WebSocket. Raises `InvalidRequest` and `WebSocketDisconnect`."""
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1006))
    data = (message.get("text") or "").encode()
    if has_more_values(data, MAX_ENTRIES):
        raise InvalidRequest("glossary", f"more than {MAX_ENTRIES} entries")
    return validated(model, lambda: model.model_validate_json(data, strict=True), "message")


async def _send(websocket: WebSocket, name: str, fields: dict[str, Any]) -> None:
    await websocket.send_text(msgspec.json.encode({"event": name, **fields}).decode())


async def _close(websocket: WebSocket, error: ServiceError) -> None:
    """Tell the client why its session ends, and close the connection."""
    websocket.state.outcome = error.code
    with suppress(WebSocketDisconnect, RuntimeError):
        await _send(websocket, "error", {"error": error.message, "code": error.code})
        await websocket.close(_CLOSE_CODES.get(error.status, 1008))


async def _check_origin(websocket: WebSocket) -> None:
    """Refuse pages of other sites, as browsers send their WebSockets to any server."""
    origin, allowed = websocket.headers.get("origin"), websocket.app.state.cors_origins
    if origin is None or "*" in allowed or origin in allowed:
        return
    if urlsplit(origin).netloc != websocket.headers.get("host"):
        await websocket.close(1008)
        raise WebSocketDisconnect(1008)
