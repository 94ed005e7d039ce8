"""A translation's events as server-sent events.

Every event but an error has an id, its number in the stream. Output is deterministic, so a reader that lost
its connection sends the same request with `Last-Event-ID`, to any replica, and gets the events after it.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict
from typing import Final, NamedTuple

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from service.errors import ServiceError
from service.translation.events import BeamStepped, Event, Finished, SegmentFinished, Started, TokenGenerated
from service.translation.stream import Translation

logger = logging.getLogger(__name__)

# sse-starlette would cut all streams when the server is told to stop; we let them finish.
AppStatus.enable_automatic_graceful_drain = False

# Proxies that know these do not buffer the stream. Keep the one that sse-starlette does not set itself.
_HEADERS: Final = {"Cache-Control": "no-cache"}

EVENT_NAMES: Final[dict[type, str]] = {
    Started: "start",
    TokenGenerated: "token",
    BeamStepped: "hypotheses",
    SegmentFinished: "segment",
    Finished: "done",
}


class AnswerShape(NamedTuple):
    """How a finished translation is told: in arrays if `q` was one, and with what was asked for."""

    is_array: bool = False
    alternatives: bool = False
    scores: bool = False


def answer(finished: Finished, shape: AnswerShape) -> dict[str, object]:
    """The fields of LibreTranslate's answer, and ours."""
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
    """What is sent of an event."""
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


def encode(number: int, name: str, data: object) -> bytes:
    """One event on the wire. JSON has no raw line breaks, so it is always a single data line.

    Bytes, because sse-starlette passes them through: building its event object costs more than all
    the rest of sending a token.
    """
    return b"id: %d\r\nevent: %s\r\ndata: %s\r\n\r\n" % (number, name.encode(), msgspec.json.encode(data))


def encode_error(message: str, code: str) -> bytes:
    """Without an id: the next number is that of the event which did not come, and a browser that comes back with it
    would never get that one."""
    return b"event: error\r\ndata: %s\r\n\r\n" % msgspec.json.encode({"error": message, "code": code})


class TranslationStream(EventSourceResponse):
    """The SSE response of one translation; whatever ends it, the translation is closed.

    A comment every `keep_alive_seconds` tells readers and proxies that it lives.

    How it ended is left in the request's state as `outcome`: `ok`, an error's code, or `cancelled` when
    the client went away. `context` has been entered, and is left then: with the error, if there was one, or
    `ClientDisconnect`.
    """

    def __init__(
        self,
        translation: Translation,
        *,
        shape: AnswerShape,
        last_event_id: int,
        keep_alive_seconds: float,
        context: AbstractAsyncContextManager[object] | None = None,
    ) -> None:
        self._translation = translation
        self._context = context or nullcontext()
        self._error: Exception | None = None
        self._shape = shape
        self._last_event_id = last_event_id
        self._outcome = "cancelled"
        self._request_id: str | None = None
        # Without its limit on the time of a send: `Connection` cuts who takes nothing, and the errors of that limit
        # hold what was to be sent in cycles, megabytes of it.
        super().__init__(
            self._chunks(),
            headers=_HEADERS,
            ping=keep_alive_seconds,
            ping_message_factory=lambda: ServerSentEvent(comment="keep-alive"),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["translation"] = self._translation
        self._request_id = scope["state"].get("request_id")
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Not left to the generator: one that was never started has no `finally`.
            self._translation.close()
            scope["state"]["outcome"] = self._outcome
            error = self._error or (None if self._outcome == "ok" else ClientDisconnect())
            await self._context.__aexit__(type(error) if error else None, error, None)

    async def _chunks(self) -> AsyncIterator[bytes]:
        number = 0
        try:
            async for events in self._translation.events():
                if chunk := self._encode_new(number, events):
                    yield chunk
                number += len(events)
            # A send that waits for its reader returns as if all were well when that one has left.
            self._outcome = "ok" if self.active else "cancelled"
        except ServiceError as error:
            self._error = error
            self._outcome = error.code
            yield encode_error(error.message, error.code)
        except Exception as error:
            self._error = error
            # Our bug, but still the stream's one last event.
            logger.exception("unexpected error in a stream", extra={"request_id": self._request_id})
            self._outcome = ServiceError.code
            yield encode_error("internal error", ServiceError.code)

    def _encode_new(self, first_number: int, events: Sequence[Event]) -> bytes:
        return b"".join(
            encode(number, EVENT_NAMES[type(event)], payload(event, self._shape))
            for number, event in enumerate(events, start=first_number)
            # Whoever has seen everything is told so again, or a browser would ask for ever.
            if number > self._last_event_id or isinstance(event, Finished)
        )
