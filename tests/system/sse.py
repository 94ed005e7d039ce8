"""A strict reader of our event streams."""

import json
from collections.abc import AsyncIterator, Collection
from typing import Any, NamedTuple

import httpx

REQUEST = {"source": "en", "target": "fr", "stream": True}


class Event(NamedTuple):
    id: int | None
    """None of an error, and of few others."""
    name: str
    data: dict[str, Any]


async def read_events(response: httpx.Response, unnumbered: Collection[str] = ("error",)) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            if name:  # a comment line has none
                fields[name] = value
        elif fields:
            assert ("id" in fields) == (fields["event"] not in unnumbered)
            yield Event(int(fields["id"]) if "id" in fields else None, fields["event"], json.loads(fields["data"]))
            fields = {}


async def stream(client: httpx.AsyncClient, q: str | list[str], **options: object) -> list[Event]:
    """All events of a `POST /translate`."""
    async with client.stream("POST", "/translate", json={"q": q, **REQUEST, **options}) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        return [event async for event in read_events(response)]


def text_of(events: list[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.name == "token")
