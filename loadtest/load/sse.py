"""Server-sent events as a load test reads them, and what one stream must look like from start to end.

Knows nothing of locust: bytes in, events and a verdict out.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Event = tuple[str, dict[str, Any]]
"""The name of an event, and its data."""


def read_events(readline: Callable[[], bytes]) -> Iterator[Event]:
    """Yield the events of a translation, as soon as the blank line after each is read, until `readline` returns b"".

    Comments are skipped. Raises `ValueError` for data that is not JSON.
    """
    name = data = ""
    while line := readline():
        field, _, value = line.decode().rstrip("\r\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data = value
        elif not line.strip() and data:
            yield name, json.loads(data)
            name = data = ""


def find_problem(events: Sequence[Event]) -> str | None:
    """Return what is wrong with a whole stream, in few distinct words (they name a failure), or None.

    Raises `KeyError` for an event without a field that it must have.
    """
    if errors := [data["code"] for name, data in events if name == "error"]:
        return f"stream ended with error {errors[0]}"
    names = [name for name, _ in events]
    if "done" not in names:
        return "stream ended without done"
    if names.index("done") < len(names) - 1:
        return "stream went on after done"
    text = "".join(data["text"] for name, data in events if name == "token")
    return None if text == events[-1][1]["translatedText"] else "token texts differ from translatedText"
