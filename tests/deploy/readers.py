"""Readers of streams that resume when a replica or a node is lost, and what each of them has to get.

Knows nothing of Ray.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import httpx
from httpx_sse import SSEError, aconnect_sse

from loadtest.sentences import LANGUAGES, SENTENCES

PATIENCE_SECONDS: Final = 120.0
_BETWEEN_SECONDS: Final = 0.02
_UNDER_WAY: Final = 100
"""Tokens of a reader by which the other readers have begun, and no stream is near its end."""

_Loss = TypeVar("_Loss")


class Resumed(NamedTuple):
    """A text, how often its reader had to resume, and the longest pause between two of its tokens, in seconds."""

    text: str
    resumptions: int
    longest_pause: float


class Reader:
    """Reads one stream; when it breaks off, resumes after the last event."""

    def __init__(self, client: httpx.AsyncClient, text: str) -> None:
        self._client = client
        self._body: dict[str, Any] = {"q": text, **LANGUAGES, "stream": True}
        self._last_event_id: str | None = None
        self._pieces: list[str] = []
        self._begun = False
        self._last_token_at = time.monotonic()
        self._longest_pause = 0.0
        self.under_way = asyncio.Event()

    async def read(self) -> Resumed:
        """Read to the end; raises `TimeoutError` when that takes too long."""
        resumptions = 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (whole := await self._read_on()) is None:
                resumptions += self._begun
                await asyncio.sleep(0.2)
        if whole != "".join(self._pieces):
            raise ValueError("the tokens give another text than the end")
        return Resumed(whole, resumptions, self._longest_pause)

    async def _read_on(self) -> str | None:
        """Return the whole translation, or None if the stream broke off."""
        headers = {} if self._last_event_id is None else {"Last-Event-ID": self._last_event_id}
        try:
            async with aconnect_sse(self._client, "POST", "/translate", json=self._body, headers=headers) as source:
                async for event in source.aiter_sse():
                    if not event.data:
                        continue  # httpx-sse makes an event of the keep-alive comment
                    data = event.json()
                    if event.event == "error":
                        return None
                    self._last_event_id = event.id
                    if event.event == "token":
                        self._add(data["text"])
                        if len(self._pieces) >= _UNDER_WAY:
                            self.under_way.set()
                    elif event.event == "done":
                        self._begun = True
                        self.under_way.set()
                        return str(data["translatedText"])
        except (httpx.TransportError, SSEError, ValueError):
            pass  # refused, cut, or the proxy's own words instead of an event
        return None

    def _add(self, piece: str) -> None:
        now = time.monotonic()
        if self._begun:
            self._longest_pause = max(self._longest_pause, now - self._last_token_at)
        self._last_token_at = now
        self._pieces.append(piece)
        self._begun = True


def make_texts(count: int, sentences: int) -> list[str]:
    """Return `count` texts of so many sentences each."""
    return [" ".join(SENTENCES[(7 * number + k) % len(SENTENCES)] for k in range(sentences)) for number in range(count)]


def connect(url: str) -> httpx.AsyncClient:
    """Open a client with a connection of its own for each request."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS, limits=limits)


async def read_alone(client: httpx.AsyncClient, texts: Sequence[str]) -> list[str]:
    """Return the translation of each text alone."""
    return [(await Reader(client, text).read()).text for text in texts]


async def read_through(
    client: httpx.AsyncClient, texts: Sequence[str], alone: Sequence[str], lose: Callable[[], _Loss]
) -> tuple[dict[str, float], _Loss]:
    """Read all texts at once and call `lose` when they are under way; return figures and `lose`'s result."""
    reading = await _begin([Reader(client, text) for text in texts])
    running = sum(not task.done() for task in reading)
    lost = lose()
    resumed = await asyncio.gather(*reading)
    figures = {
        "streams": len(texts),
        "streams_that_ran": running,
        "streams_that_resumed": sum(each.resumptions > 0 for each in resumed),
        "longest_pause_seconds": round(max(each.longest_pause for each in resumed), 1),
        "same_text_as_alone": sum(each.text == text for each, text in zip(resumed, alone, strict=True)),
    }
    return figures, lost


async def _begin(readers: Sequence[Reader]) -> list[asyncio.Task[Resumed]]:
    """Start the readers one after the other, so that Ray sees where there is room; return when one is under way.

    Waiting for all would be wrong: a replica to which the proxy sent few streams could be done with them by then, and
    nobody would notice its loss.
    """
    reading = []
    for reader in readers:
        reading.append(asyncio.create_task(reader.read()))
        await asyncio.sleep(_BETWEEN_SECONDS)
    waiting = [asyncio.create_task(reader.under_way.wait()) for reader in readers]
    await asyncio.wait([*waiting, *reading], return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    return reading
