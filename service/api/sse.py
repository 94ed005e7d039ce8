"""The events of a translation as server-sent events.

Every event except an error has an id: its number in the stream, and where the caller's characters are counted, the
stream's signature. Output is deterministic: a client that lost its connection sends the same request with
`Last-Event-ID`, to any replica, and receives the events after that id.

A browser's `EventSource` reconnects even after the last event, and stops only at a status other than 200. A resumed
request that has all events already is therefore answered with 204. Only a translation shows how many events there are,
so the headers of a resumed stream wait for its first new event.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from typing import Any, Final, Protocol

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.types import Message, Receive, Scope, Send

from service.access.charges import Charge
from service.api.translate_request import AnswerShape, answer, shaped
from service.errors import CallerLeft, ServiceError, is_error
from service.translation.events import (
    BeamStepped,
    Event,
    Finished,
    ModelLoading,
    SegmentFinished,
    Started,
    TokenGenerated,
)
from service.translation.translation import Translation

logger = logging.getLogger(__name__)

# sse-starlette would close all streams when the server is stopped; ours finish.
AppStatus.enable_automatic_graceful_drain = False

KEEP_ALIVE_SECONDS: Final = 15.0
"""Interval between comments on an idle stream: proxies wait a minute before they give up (nginx)."""
EVENT_NAMES: Final[dict[type, str]] = {
    Started: "start",
    ModelLoading: "loading",
    TokenGenerated: "token",
    BeamStepped: "hypotheses",
    SegmentFinished: "segment",
    Finished: "done",
}


def stream_options() -> dict[str, Any]:
    """Return sse-starlette's options of all event streams.

    Without its send timeout: `Connection` has one, and the errors of sse-starlette's would keep megabytes of unsent
    data in reference cycles.
    """
    return {
        "headers": {"Cache-Control": "no-cache"},  # keeps proxies from buffering, with the headers of sse-starlette
        "ping": KEEP_ALIVE_SECONDS,
        "ping_message_factory": lambda: ServerSentEvent(comment="keep-alive"),
    }


def payload(event: Event, shape: AnswerShape) -> object:
    """Build the data of an event."""
    match event:
        case Finished(_, usage, timings):
            return answer(event, shape) | {"usage": usage, "timings": timings}
        case Started(id, source, target, detected, pivots):
            fields: dict[str, list[object]] = {}
            if detected:
                fields["detectedLanguage"] = [asdict(each) for each in detected]
            if pivots:
                fields["pivot"] = [*pivots]
            return {"id": id, "source": source, "target": target} | shaped(fields, shape)
        case _:
            return event


def encode(number: int, name: str, data: object, suffix: bytes = b"") -> bytes:
    """Encode an event for the wire. JSON escapes line breaks, so the data is always one line.

    Returns bytes, which sse-starlette passes through: its event objects cost more than the rest of sending a token.
    """
    return b"id: %d%b\r\nevent: %b\r\ndata: %b\r\n\r\n" % (number, suffix, name.encode(), _to_json(data))


_to_json: Final = msgspec.json.Encoder().encode


def encode_event(number: int, event: Event, shape: AnswerShape, suffix: bytes = b"") -> bytes:
    """Encode an event of a translation."""
    if type(event) is TokenGenerated:  # nearly all of them
        return b"id: %d%b\r\nevent: token\r\ndata: %b\r\n\r\n" % (number, suffix, _to_json(event))
    return encode(number, EVENT_NAMES[type(event)], payload(event, shape), suffix)


def encode_unnumbered(name: str, data: object) -> bytes:
    """Encode an event without an id, which a resumed stream does not count."""
    return b"event: %b\r\ndata: %b\r\n\r\n" % (name.encode(), _to_json(data))


class Encoder(Protocol):
    """Encodes the events of one translation, in their order, in the format of one API."""

    def encode(self, events: Sequence[Event], *, repeats_end: bool) -> bytes:
        """Encode the next events that the client lacks; with `repeats_end`, the last event of all in any case."""

    def encode_error(self, error: ServiceError) -> bytes:
        """Encode the error that ends the stream."""


class EventEncoder:
    """Encodes events with ids: their numbers, and the `signature` of the stream, if there is one.

    A client that resumes has the events up to the number `last_event`.
    """

    def __init__(self, shape: AnswerShape, last_event: int = -1, signature: str = "") -> None:
        self._shape = shape
        self._last_event = last_event
        self._suffix = f"-{signature}".encode() if signature else b""
        self._count = 0

    def encode(self, events: Sequence[Event], *, repeats_end: bool) -> bytes:
        if isinstance(events[0], ModelLoading):
            return b"".join(encode_unnumbered(EVENT_NAMES[ModelLoading], each) for each in events)
        first, self._count = self._count, self._count + len(events)
        return b"".join(
            [
                encode_event(number, event, self._shape, self._suffix)
                for number, event in enumerate(events, start=first)
                if number > self._last_event or (repeats_end and isinstance(event, Finished))
            ]
        )

    def encode_error(self, error: ServiceError) -> bytes:
        """Encode an error, without an id: a browser that resumed after its number would miss the event with it."""
        return encode_unnumbered("error", {"error": error.message, "code": error.code})


class TranslationStream(EventSourceResponse):
    """The SSE response of one translation, which is closed however the stream ends.

    A client that `resumes` and has all events already gets 204 without a body; after a comment, which is sent with 200,
    it gets the last event once more.

    At the end, the request's state has an `outcome`: `ok`, the code of an error, or `cancelled` if the client
    disconnected. An error ends `charge`, and a 204 gives it back, before the client sees either. `context` was entered
    by the caller; the stream exits it.
    """

    def __init__(
        self,
        translation: Translation,
        encoder: Encoder,
        charge: Charge,
        context: AbstractAsyncContextManager[object],
        *,
        resumes: bool = False,
    ) -> None:
        self._translation = translation
        self._encoder = encoder
        self._charge = charge
        self._context = context
        self._resumes = resumes
        self._has_begun = False
        self._has_no_news = False
        self._outcome = "cancelled"
        self._request_id: str | None = None
        self._held_start: Message | None = None
        super().__init__(self._chunks(), **stream_options())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["translation"] = self._translation
        self._request_id = scope["state"].get("request_id")
        try:
            await super().__call__(scope, receive, self._holding_start(send) if self._resumes else send)
        finally:
            # Here, because a generator that was never started does not run its `finally`.
            self._translation.close()
            scope["state"]["outcome"] = self._outcome
            if self._outcome == "cancelled":
                await self._end_charge(CallerLeft())
            await self._context.__aexit__(None, None, None)

    async def _end_charge(self, error: BaseException) -> None:
        await self._charge.end(error, self._translation.characters_sent if self._has_begun else None)

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        """Send without sse-starlette's own timeout: even turned off, it takes as long as encoding ten events."""
        await send(message)

    def _holding_start(self, send: Send) -> Send:
        """Return a `send` that keeps the status and the headers until something follows them."""

        async def hold(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._held_start = message
                return
            if self._has_no_news and message["more_body"]:
                return  # a comment: with it, the status would be 200
            start, self._held_start = self._held_start, None
            if start is not None:
                await send(start if message["body"] else {**start, "status": 204, "headers": []})
            await send(message)

        return hold

    async def _chunks(self) -> AsyncIterator[bytes]:
        try:
            async for events in self._translation.events():
                # With 200 sent already, only a last event stops a page's EventSource.
                chunk = self._encoder.encode(events, repeats_end=self._held_start is None)
                if chunk:
                    self._has_begun = self._has_begun or not isinstance(events[0], ModelLoading)
                    yield chunk
                elif isinstance(events[-1], Finished):
                    self._has_no_news = True
                    await self._charge.give_back()
            # Sending to a disconnected client returns without an error.
            self._outcome = "ok" if self.active else "cancelled"
        except BaseException as raised:
            if not is_error(raised):
                raise
            await self._end_charge(raised)
            error = raised if isinstance(raised, ServiceError) else ServiceError("internal error")
            if error is not raised:  # a bug of ours: the stream still ends with exactly one last event
                logger.exception("unexpected error in a stream", extra={"request_id": self._request_id})
            self._outcome = error.code
            yield self._encoder.encode_error(error)
