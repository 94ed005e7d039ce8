"""Server-sent events as a load test reads them, and what one stream must look like from start to end.

Knows nothing of locust: bytes in, events and a verdict out.
"""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    """One event; `data` is its data lines joined by line feeds."""

    name: str
    data: str


def read_events(readline: Callable[[], bytes]) -> Iterator[ServerSentEvent]:
    """Yield the events of a stream until `readline` returns b"" (WHATWG HTML, section 9.2.6).

    Each event is given as soon as its blank line is read. Comments and other fields are skipped, and
    so is an event that the end of the stream cuts off.
    """
    name = "message"
    data: list[str] = []
    while line := readline():
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "data":
                data.append(value)
            case "" if line.strip() == b"":
                if data:
                    yield ServerSentEvent(name, "\n".join(data))
                name, data = "message", []


class Transcript:
    """The record of one translation's stream, and whether the stream is as promised."""

    def __init__(self) -> None:
        self._text = ""
        self._translated: str | None = None
        self._error_code: str | None = None
        self._ends = 0
        self._late = False

    def add(self, event: ServerSentEvent) -> None:
        """Take the next event; raises `ValueError` when its data is not what its name promises."""
        self._late = self._late or self._ends > 0
        match event.name:
            case "token":
                self._text += _string(event, "text")
            case "done":
                self._translated = _string(event, "translatedText")
                self._ends += 1
            case "error":
                self._error_code = _string(event, "code")
                self._ends += 1

    def problem(self) -> str | None:
        """Return what is wrong with the whole stream, in few distinct words (they name a failure), or None."""
        if self._error_code is not None:
            return f"stream ended with error {self._error_code}"
        if self._translated is None:
            return "stream ended without done"
        if self._late:
            return "stream went on after done"
        if self._text != self._translated:
            return "token texts differ from translatedText"
        return None


def _string(event: ServerSentEvent, key: str) -> str:
    data = json.loads(event.data)
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"{event.name} event has no {key}")
    return value
