"""Conversations with a live session over a WebSocket."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

LANGUAGES: Final = {"source": "en", "target": "fr"}
Event = dict[str, Any]


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[ClientConnection]:
    """Connect, send the first message and take the answer."""
    address = url.replace("http", "ws", 1) + "/translate/live"
    async with connect(address, proxy=None) as socket:
        await say(socket, **options)
        yield socket


async def say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


async def until(socket: ClientConnection, name: str, **fields: Any) -> list[Event]:
    """Return the events up to one of this name, with these fields; fails at an error that is not expected."""
    events: list[Event] = []
    async for message in socket:
        events.append(json.loads(message))
        if events[-1]["event"] == name and fields.items() <= events[-1].items():
            return events
        assert events[-1]["event"] != "error", events[-1]
    raise AssertionError(f"the connection has ended without {name}: {events}")


async def rest(socket: ClientConnection) -> list[Event]:
    """Return all events until the connection is closed, for whatever reason."""
    events: list[Event] = []
    with suppress(ConnectionClosedError):
        async for message in socket:
            events.append(json.loads(message))  # noqa: PERF401  what came before the error counts, too
    return events


def committed(events: list[Event]) -> str:
    return "".join(event["text"] for event in events if event["event"] == "commit")


def finished(events: list[Event]) -> str:
    return "".join(event["text"] for event in events if event["event"] == "segment")
