"""The client's live sessions, against a server of a few lines."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from service.client import AsyncClient, Client, Commit, Ended, Refused, Sentence

Talk = Callable[[ServerConnection, int], Awaitable[None]]


@asynccontextmanager
async def _server(talk: Talk) -> AsyncIterator[str]:
    count = 0

    async def handle(socket: ServerConnection) -> None:
        nonlocal count
        count += 1
        await talk(socket, count)

    async with serve(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


async def _send(socket: ServerConnection, event: str, **fields: Any) -> None:
    await socket.send(json.dumps({"event": event, **fields}))


async def _received(socket: ServerConnection, count: int) -> list[dict[str, Any]]:
    return [json.loads(await socket.recv()) for _ in range(count)]


async def _hello(socket: ServerConnection, session: str) -> list[dict[str, Any]]:
    """Take the first two messages and send the start."""
    messages = await _received(socket, 2)
    await _send(socket, "start", session=session, source_end=0)
    return messages


@pytest.mark.parametrize("reason", ["lost", "moved"])
async def test_a_session_goes_on_over_another_connection(reason: str) -> None:
    """After a lost connection the same one; where the server is going, another one from where it was."""
    firsts: list[list[dict[str, Any]]] = []

    async def talk(socket: ServerConnection, count: int) -> None:
        firsts.append(await _hello(socket, f"s{count}"))
        if count == 1:
            await _send(socket, "commit", id=1, segment=0, index=0, text="Oui. ", source_end=5)
            await _send(socket, "segment", id=2, segment=0, source="Yes. ", text="Oui. ", source_end=5)
            await _send(socket, "commit", id=3, segment=1, index=5, text="Non", source_end=7)
            if reason == "moved":
                await _send(socket, "error", error="the server is shutting down", code="not_ready")
            return
        await _send(socket, "commit", id=4, segment=1, index=8, text=".", source_end=8)
        await _send(socket, "done", id=5, segments=2, source_end=8, index=9)

    async with _server(talk) as url, AsyncClient(url) as client:
        session = client.live(source="en", target="fr", latency="low")
        await session.append("Yes. No.")
        await session.end()
        events = [event async for event in session]
    assert "".join(event.text for event in events if isinstance(event, Commit)) == "Oui. Non."
    assert firsts[0][0]["latency"] == "low"
    assert firsts[0][1] == {"append": "Yes. No.", "end": True}
    if reason == "lost":
        assert firsts[1] == [{"session": "s1", "last_event": 3}, {"replace_from": 5, "text": "No.", "end": True}]
    else:
        first, change = firsts[1]
        assert {name: first[name] for name in ("source_start", "segment", "index", "committed")} == {
            "source_start": 5, "segment": 1, "index": 5, "committed": "Non",
        }  # fmt: skip
        assert change == {"append": "No.", "end": True}


async def test_a_refusal_is_raised() -> None:
    async def talk(socket: ServerConnection, count: int) -> None:
        await _received(socket, 1)
        await _send(socket, "error", error="target: xx is not supported", code="invalid_request")

    async with _server(talk) as url, AsyncClient(url) as client:
        with pytest.raises(Refused, match="target: xx"):
            async for _ in client.live(source="en", target="xx"):
                pass


async def test_threads_have_the_same() -> None:
    async def talk(socket: ServerConnection, count: int) -> None:
        source, changes = "", (await _hello(socket, "s"))[1:]
        while True:
            change = changes.pop() if changes else json.loads(await socket.recv())
            source += change.get("append", "")
            if "replace_from" in change:
                source = source[: change["replace_from"]] + change["text"]
            if "final" in change:
                await _send(socket, "segment", id=1, segment=0, source=source, text=source.upper(), source_end=9)
            if "end" in change:
                await _send(socket, "done", id=2, segments=1, source_end=9, index=9)
                return

    def use(url: str) -> list[object]:
        with Client(url) as client, client.live(source="en", target="fr") as session:
            session.append("the cab ")
            session.replace(4, "cats ")
            assert session.source_end == 9
            session.finish_sentence()
            session.end()
            return list(session)

    async with _server(talk) as url:
        events = await asyncio.to_thread(use, url)
    assert isinstance(events[-1], Ended)
    assert [event.text for event in events if isinstance(event, Sentence)] == ["THE CATS "]
