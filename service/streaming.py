"""A translation's events as server-sent events.

Every event has an id, its number in the stream. Output is deterministic, so a reader that lost its
connection sends the same request with `Last-Event-ID`, to any replica, and gets the events after it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from service.errors import ServiceError
from service.events import BeamStepped, Event, Finished, SegmentFinished, Started, TokenGenerated
from service.translation import Translation

logger = logging.getLogger(__name__)

# Proxies that know these do not buffer the stream.
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_KEEP_ALIVE: Final = b": keep-alive\r\n\r\n"

EVENT_NAMES: Final[dict[type, str]] = {
    Started: "start",
    TokenGenerated: "token",
    BeamStepped: "hypotheses",
    SegmentFinished: "segment",
    Finished: "done",
}


async def disconnection(receive: Receive) -> None:
    """Until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


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
    """One event on the wire. JSON has no raw line breaks, so it is always a single data line."""
    return b"id: %d\r\nevent: %s\r\ndata: %s\r\n\r\n" % (number, name.encode(), msgspec.json.encode(data))


class TranslationStream(StreamingResponse):
    """The SSE response of one translation; whatever ends it, the translation is closed.

    A comment every `keep_alive_seconds` tells readers and proxies that it lives.

    How it ended is left in the request's state as `outcome`: `ok`, an error's code, or `cancelled` when
    the client went away.
    """

    def __init__(
        self,
        translation: Translation,
        *,
        shape: AnswerShape,
        last_event_id: int,
        keep_alive_seconds: float,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._translation = translation
        self._on_close = on_close
        self._shape = shape
        self._last_event_id = last_event_id
        self._outcome = "cancelled"
        self._request_id: str | None = None
        self._keep_alive_seconds = keep_alive_seconds
        super().__init__(self._chunks(), headers=_HEADERS, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["translation"] = self._translation
        self._request_id = scope["state"].get("request_id")
        sends = asyncio.Lock()

        async def send_in_turn(message: Message) -> None:
            async with sends:
                await send(message)

        self._leaving = asyncio.create_task(disconnection(receive))
        streaming = asyncio.create_task(self.stream_response(send_in_turn))
        tasks = (streaming, self._leaving, asyncio.create_task(self._keep_alive(send_in_turn)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if streaming.done():
                streaming.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Not left to the generator: one that was never started has no `finally`.
            self._translation.close()
            self._on_close()
            scope["state"]["outcome"] = self._outcome

    async def _keep_alive(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._keep_alive_seconds)
            await send({"type": "http.response.body", "body": _KEEP_ALIVE, "more_body": True})

    async def _chunks(self) -> AsyncIterator[bytes]:
        number = 0
        try:
            async for events in self._translation.events():
                if chunk := self._encode_new(number, events):
                    yield chunk
                number += len(events)
            # A send that waits for its reader returns as if all were well when that one has left.
            self._outcome = "cancelled" if self._leaving.done() else "ok"
        except ServiceError as error:
            self._outcome = error.code
            yield encode(number, "error", {"error": error.message, "code": error.code})
        except Exception:
            # Our bug, but still the stream's one last event.
            logger.exception("unexpected error in a stream", extra={"request_id": self._request_id})
            self._outcome = ServiceError.code
            yield encode(number, "error", {"error": "internal error", "code": ServiceError.code})

    def _encode_new(self, first_number: int, events: Sequence[Event]) -> bytes:
        return b"".join(
            encode(number, EVENT_NAMES[type(event)], payload(event, self._shape))
            for number, event in enumerate(events, start=first_number)
            # Whoever has seen everything is told so again, or a browser would ask for ever.
            if number > self._last_event_id or isinstance(event, Finished)
        )
