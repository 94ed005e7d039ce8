"""The wire format, and how a stream ends when its translation does not."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, nullcontext
from typing import cast

import msgspec
import pytest
from starlette.types import Message

from service.access.async_key_store import AsyncKeyStore
from service.access.charges import Caller, Charge, Streamed
from service.access.control import AccessControl
from service.access.key_store import KeyLimits
from service.api.sse import EventEncoder, TranslationStream, encode
from service.api.translate_request import AnswerShape, answer
from service.errors import DeadlineExceeded, EngineFailed, NotReady
from service.settings import Settings
from service.translation.events import (
    Alternative,
    Candidate,
    Event,
    Finished,
    Started,
    TextTranslated,
    Timings,
    TokenGenerated,
    Usage,
)
from service.translation.translation import Translation
from tests.panics import PanicException

FREE = Charge(AsyncKeyStore(None), Caller("somebody", KeyLimits()), "2026-01", 0, None)
EVENTS: list[Event] = [
    Started("x", "en", "fr"),
    TokenGenerated(0, 0, "Oui\u2028\n", -0.5),
    Finished([TextTranslated("Oui\u2028\n", -0.5, [])], Usage(1, 2, 1), Timings(0.1, 0.2)),
]


class ScriptedTranslation:
    """Gives its events, then raises `error` if there is one."""

    def __init__(self, events: Sequence[Event], error: BaseException | None = None) -> None:
        self._events = events
        self._error = error
        self.closed = False
        self.characters_sent = 2

    async def events(self) -> AsyncGenerator[Sequence[Event]]:
        for event in self._events:
            yield [event]
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self.closed = True


class EndlessTranslation(ScriptedTranslation):
    """Gives its events, and then never another."""

    async def events(self) -> AsyncGenerator[Sequence[Event]]:
        async for events in super().events():
            yield events
        await asyncio.Event().wait()


def _response(translation: ScriptedTranslation, last_event: int, charge: Charge) -> TranslationStream:
    return TranslationStream(
        cast(Translation, translation),
        EventEncoder(AnswerShape(), last_event, charge.signature),
        charge,
        nullcontext(),
        resumes=last_event >= 0,
    )


async def _stream(
    translation: ScriptedTranslation,
    last_event_id: int = -1,
    charge: Charge = FREE,
    *,
    reader_leaves: bool = False,
    statuses: list[int] | None = None,
) -> tuple[list[str], object]:
    """The lines that were sent, and the outcome; the status is appended to `statuses`."""
    response = _response(translation, last_event_id, charge)
    body = b""

    async def send(message: Message) -> None:
        nonlocal body
        if statuses is not None and message["type"] == "http.response.start":
            statuses.append(message["status"])
        body += message.get("body", b"")

    async def receive() -> Message:
        if not reader_leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "POST", "state": {}}
    await response(scope, receive, send)
    assert translation.closed
    return body.decode().split("\r\n"), scope["state"]["outcome"]  # type: ignore[index]


def test_an_event_is_one_data_line_whatever_its_text() -> None:
    data = {"text": "a\nb\r\u2028 é 😀"}
    lines = encode(3, "token", data).decode().split("\r\n")
    assert lines[:2] == ["id: 3", "event: token"]
    assert json.loads(lines[2].removeprefix("data: ")) == data
    assert lines[3:] == ["", ""]
    assert "\n" not in lines[2]


def test_an_answer_has_the_shape_of_the_text_and_what_was_asked_for() -> None:
    first = TextTranslated("Oui", -0.5, [Alternative("Ouais", -0.75), Alternative("Si", -1.5)])
    nothing = TextTranslated("42", None, [])
    finished = Finished([first, nothing], Usage(1, 2, 1), Timings(0.1, 0.2))
    assert answer(finished, AnswerShape()) == {"translatedText": "Oui"}
    assert answer(finished, AnswerShape(alternatives=True, scores=True)) == {
        "translatedText": "Oui",
        "alternatives": ["Ouais", "Si"],
        "scores": -0.5,
        "alternativeScores": [-0.75, -1.5],
    }
    assert answer(finished, AnswerShape(is_array=True, alternatives=True, scores=True)) == {
        "translatedText": ["Oui", "42"],
        "alternatives": [["Ouais", "Si"], []],
        "scores": [-0.5, None],
        "alternativeScores": [[-0.75, -1.5], []],
    }


def test_an_event_has_no_field_that_nobody_asked_for() -> None:
    plain = json.loads(msgspec.json.encode(TokenGenerated(0, 0, "Oui", -0.5)))
    assert plain == {"segment": 0, "index": 0, "text": "Oui", "logprob": -0.5}
    asked = TokenGenerated(0, 0, "Oui", -0.5, [Candidate("Oui", -0.5)], None)
    assert json.loads(msgspec.json.encode(asked)) == plain | {
        "candidates": [{"text": "Oui", "logprob": -0.5}],
        "alignment": None,
    }


async def test_a_whole_stream() -> None:
    lines, outcome = await _stream(ScriptedTranslation(EVENTS))
    assert [line for line in lines if line.startswith("event")] == ["event: start", "event: token", "event: done"]
    assert outcome == "ok"


async def test_the_ids_of_a_counted_stream_are_signed() -> None:
    async with aclosing(AccessControl(Settings())) as access:
        caller = await access.admit(None, "192.0.2.1")
        async with access.charged(caller, 5, stream=Streamed("text", 60.0)) as charge:
            lines, _ = await _stream(ScriptedTranslation(EVENTS), 0, charge)
    assert charge.signature
    assert [line for line in lines if line.startswith("id")] == [f"id: {each}-{charge.signature}" for each in (1, 2)]


async def test_a_resumed_stream_starts_behind_the_last_event() -> None:
    lines, _ = await _stream(ScriptedTranslation(EVENTS), last_event_id=0)
    assert [line for line in lines if line.startswith("id")] == ["id: 1", "id: 2"]


@pytest.mark.parametrize("last_event_id", [2, 3, 99])
async def test_a_client_that_has_all_events_gets_204_and_is_not_charged(last_event_id: int) -> None:
    """A browser reconnects after any stream that ends with 200, and would translate again for ever."""
    statuses: list[int] = []
    used: list[int] = []
    async with aclosing(AccessControl(Settings())) as access:
        caller = await access.admit(None, "192.0.2.1")
        async with access.charged(caller, 5, stream=Streamed("text", 60.0)) as charge:
            response = _response(ScriptedTranslation(EVENTS), last_event_id, charge)

            async def send(message: Message) -> None:
                statuses.append(message.get("status", 0))
                used.append(await access.characters_used(caller))

            await response({"type": "http", "method": "POST", "state": {}}, asyncio.Event().wait, send)  # type: ignore[arg-type]
    assert statuses == [204, 0]
    assert used == [0, 0], "given back before the client has the response"


async def test_a_client_that_has_all_events_gets_the_last_one_again_after_a_keep_alive_comment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The comment has sent the status 200 already."""
    monkeypatch.setattr("service.api.sse.KEEP_ALIVE_SECONDS", 0.01)

    class Slow(ScriptedTranslation):
        async def events(self) -> AsyncGenerator[Sequence[Event]]:
            async for events in super().events():
                while isinstance(events[-1], Finished) and not statuses:  # noqa: ASYNC110  another task sends
                    await asyncio.sleep(0.01)
                yield events

    statuses: list[int] = []
    lines, _ = await _stream(Slow(EVENTS), 99, statuses=statuses)
    assert statuses == [200]
    assert lines[0] == ": keep-alive"
    assert [line for line in lines if line.startswith("event")] == ["event: done"]


async def test_an_error_reaches_a_client_that_resumes() -> None:
    statuses: list[int] = []
    lines, outcome = await _stream(ScriptedTranslation(EVENTS[:2], EngineFailed("dead")), 1, statuses=statuses)
    assert statuses == [200]
    assert lines[0] == "event: error"
    assert outcome == "engine_failed"


@pytest.mark.parametrize("error", [NotReady("the server is shutting down"), ValueError("a bug")])
async def test_who_resumes_after_an_error_misses_nothing(error: Exception) -> None:
    """A browser's EventSource resumes by the last id that it received."""
    words = ["Je", " suis", " un", " chat."]
    tokens = [TokenGenerated(0, index, word, -0.5) for index, word in enumerate(words)]
    for count in range(len(tokens) + 1):
        broken, _ = await _stream(ScriptedTranslation([EVENTS[0], *tokens[:count]], error))
        last_id = [line.removeprefix("id: ") for line in broken if line.startswith("id: ")][-1]
        rest, _ = await _stream(ScriptedTranslation([EVENTS[0], *tokens, EVENTS[-1]]), last_event_id=int(last_id))
        data = [json.loads(line.removeprefix("data: ")) for line in broken + rest if line.startswith("data: ")]
        assert [each["text"] for each in data if "text" in each] == words


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DeadlineExceeded("late"), "deadline_exceeded"),
        (ValueError("a bug"), "internal_error"),
        (PanicException("a bug"), "internal_error"),
    ],
)
async def test_an_error_is_the_last_event(error: BaseException, code: str) -> None:
    lines, outcome = await _stream(ScriptedTranslation(EVENTS[:2], error))
    assert lines[-4] == "event: error"
    assert json.loads(lines[-3].removeprefix("data: "))["code"] == code
    assert outcome == code


@pytest.mark.parametrize(
    ("translation", "reader_leaves", "used"),
    [
        (ScriptedTranslation(EVENTS), False, 5),
        (ScriptedTranslation(EVENTS[:2], EngineFailed("dead")), False, 0),
        (ScriptedTranslation(EVENTS[:2], ValueError("a bug")), False, 0),
        (ScriptedTranslation(EVENTS[:2], PanicException("a bug")), False, 0),
        (ScriptedTranslation(EVENTS[:2], DeadlineExceeded("late")), False, 2),
        (ScriptedTranslation([], DeadlineExceeded("late")), False, 0),
        (EndlessTranslation(EVENTS[:2]), True, 5),
        (EndlessTranslation([]), True, 0),
    ],
)
async def test_a_stream_costs_what_its_end_says(
    translation: ScriptedTranslation, reader_leaves: bool, used: int
) -> None:
    async with aclosing(AccessControl(Settings())) as access:
        caller = await access.admit(None, "192.0.2.1")
        async with access.charged(caller, 5, stream=Streamed()) as charge:
            await _stream(translation, -1, charge, reader_leaves=reader_leaves)
        assert await access.characters_used(caller) == used
