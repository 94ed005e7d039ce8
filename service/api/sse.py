"""The events of a translation as server-sent events.

Every event except an error has an id: its number in the stream, and where the caller's characters are counted, the
stream's signature. Output is deterministic: a client that lost its connection sends the same request with
`Last-Event-ID`, to any replica, and receives the events after that id.

A browser's `EventSource` reconnects even after the last event, and stops only at a status other than 200. A resumed
request that has all events already is therefore answered with 204. Only a translation shows how many events there are,
so the headers of a resumed stream wait for its first new event.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict
from typing import Final, NamedTuple

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.types import Message, Receive, Scope, Send

from service.access.usage import Charge
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

# Proxies that know these headers do not buffer the stream. sse-starlette sets the others.
_HEADERS: Final = {"Cache-Control": "no-cache"}
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


class AnswerShape(NamedTuple):
    """The shape of a response: arrays if `q` was one, and the extras that were requested."""

    is_array: bool = False
    alternatives: bool = False
    scores: bool = False


def answer(finished: Finished, shape: AnswerShape) -> dict[str, object]:
    """Build the fields of LibreTranslate's response, and ours."""
    texts = finished.translations
    fields: dict[str, list[object]] = {"translatedText": [text.text for text in texts]}
    if shape.alternatives:
        fields["alternatives"] = [[each.text for each in text.alternatives] for text in texts]
    if shape.scores:
        fields["scores"] = [text.score for text in texts]
    if shape.scores and shape.alternatives:
        fields["alternativeScores"] = [[each.score for each in text.alternatives] for text in texts]
    if finished.detected:
        fields["detectedLanguage"] = [asdict(each) for each in finished.detected]
    if finished.pivots:
        fields["pivot"] = [*finished.pivots]
    return _shaped(fields, shape)


def _shaped(fields: Mapping[str, list[object]], shape: AnswerShape) -> dict[str, object]:
    return {name: values if shape.is_array else values[0] for name, values in fields.items()}


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
            return {"id": id, "source": source, "target": target} | _shaped(fields, shape)
        case _:
            return event


def encode(number: int, name: str, data: object, suffix: bytes = b"") -> bytes:
    """Encode an event for the wire. JSON has no raw line breaks, so the data is always one line.

    Returns bytes, which sse-starlette passes through: its event objects cost more than the rest of sending a token.
    """
    return b"id: %d%b\r\nevent: %b\r\ndata: %b\r\n\r\n" % (number, suffix, name.encode(), _to_json(data))


_to_json: Final = msgspec.json.Encoder().encode


def encode_event(number: int, event: Event, shape: AnswerShape, suffix: bytes = b"") -> bytes:
    """Encode an event of a translation."""
    if type(event) is TokenGenerated:  # nearly all of them
        return b"id: %d%b\r\nevent: token\r\ndata: %b\r\n\r\n" % (number, suffix, _to_json(event))
    return encode(number, EVENT_NAMES[type(event)], payload(event, shape), suffix)


def encode_error(message: str, code: str) -> bytes:
    """Encode an error, without an id: a browser that resumed after the next number would miss the event that has it."""
    return encode_unnumbered("error", {"error": message, "code": code})


def encode_unnumbered(name: str, data: object) -> bytes:
    """Encode an event without an id, which a resumed stream does not count."""
    return b"event: %s\r\ndata: %s\r\n\r\n" % (name.encode(), msgspec.json.encode(data))


class TranslationStream(EventSourceResponse):
    """The SSE response of one translation, which is closed however the stream ends.

    A comment is sent every `KEEP_ALIVE_SECONDS`, so that clients and proxies do not time out. The stream begins behind
    the event with the number `last_event`. If that is the last one, or larger, the response is 204 without a body;
    after a comment, which is sent with 200, it is the last event once more.

    At the end, the request's state has an `outcome`: `ok`, the code of an error, or `cancelled` if the client
    disconnected. `charge` is ended by an error, and given back with 204, before the client sees either. `context` has
    been entered and is exited at the end.
    """

    def __init__(
        self,
        translation: Translation,
        *,
        shape: AnswerShape,
        last_event: int = -1,
        charge: Charge | None = None,
        context: AbstractAsyncContextManager[object] | None = None,
    ) -> None:
        self._translation = translation
        self._charge = charge
        self._has_begun = False
        self._context = context or nullcontext()
        self._shape = shape
        self._last_event = last_event
        self._id_suffix = f"-{charge.signature}".encode() if charge and charge.signature else b""
        self._outcome = "cancelled"
        self._request_id: str | None = None
        self._held_start: Message | None = None
        # Without sse-starlette's send timeout: `Connection` has one, and the errors of sse-starlette's would keep
        # megabytes of unsent data in reference cycles.
        super().__init__(
            self._chunks(),
            headers=_HEADERS,
            ping=KEEP_ALIVE_SECONDS,
            ping_message_factory=lambda: ServerSentEvent(comment="keep-alive"),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["translation"] = self._translation
        self._request_id = scope["state"].get("request_id")
        try:
            await super().__call__(scope, receive, send if self._last_event < 0 else self._holding_start(send))
        finally:
            # Not in the generator: one that was never started runs no `finally`.
            self._translation.close()
            scope["state"]["outcome"] = self._outcome
            if self._outcome == "cancelled":
                await self._end_charge(CallerLeft())
            await self._context.__aexit__(None, None, None)

    async def _end_charge(self, error: BaseException) -> None:
        if self._charge is not None:
            await self._charge.end(error, self._translation.characters_sent if self._has_begun else None)

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        """Send without sse-starlette's own timeout, which is off, but would take as long as encoding ten events."""
        await send(message)

    def _holding_start(self, send: Send) -> Send:
        """Return a `send` that keeps the status and the headers until something follows them."""

        async def hold(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._held_start = message
                return
            start, self._held_start = self._held_start, None
            if start is not None:
                await send(start if message["body"] else {**start, "status": 204, "headers": []})
            await send(message)

        return hold

    async def _chunks(self) -> AsyncIterator[bytes]:
        number = 0
        try:
            async for events in self._translation.events():
                if isinstance(events[0], ModelLoading):
                    yield b"".join(encode_unnumbered(EVENT_NAMES[type(each)], each) for each in events)
                    continue
                chunk = self._encode_new(number, events)
                if chunk:
                    self._has_begun = True
                    yield chunk
                elif isinstance(events[-1], Finished) and self._charge is not None:
                    await self._charge.give_back()
                number += len(events)
            # A send to a client that has disconnected returns without an error.
            self._outcome = "ok" if self.active else "cancelled"
        except ServiceError as error:
            await self._end_charge(error)
            self._outcome = error.code
            yield self._encode_error(error.message, error.code)
        except BaseException as error:
            if not is_error(error):
                raise
            await self._end_charge(error)
            # A bug of ours: the stream still ends with exactly one last event.
            logger.exception("unexpected error in a stream", extra={"request_id": self._request_id})
            self._outcome = ServiceError.code
            yield self._encode_error("internal error", ServiceError.code)

    def _encode_error(self, message: str, code: str) -> bytes:
        return encode_error(message, code)

    def _encode_new(self, first_number: int, events: Sequence[Event]) -> bytes:
        last, shape, suffix = self._last_event, self._shape, self._id_suffix
        return b"".join(
            [
                encode_event(number, event, shape, suffix)
                for number, event in enumerate(events, start=first_number)
                # With 200 sent already, a second last event is what ends a page's EventSource.
                if number > last or (isinstance(event, Finished) and self._held_start is None)
            ]
        )
