"""Speakers at a server of its own, for docs/live.md: `python -m loadtest.live --help`.

`speakers` measures how long an update takes; `safety` checks that committed text stays, whatever happens.
"""

import asyncio
import json
import math
import os
import random
import signal
import time
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from loadtest.local_server import Server, run_server
from loadtest.sentences import LANGUAGES, SENTENCES

_KILL_SECONDS: Final = 5.0
_TURN_SECONDS: Final = 0.01
_WAITED: Final = 0.5
"""The share of changes after which a client waits for an event, which a busy server may take this long for:"""
_WAIT_SECONDS: Final = 1.0


app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.command()
def speakers(
    speakers: int = 100,
    rate: Annotated[float, typer.Option(help="Words a minute.")] = 150.0,
    seconds: float = 30.0,
) -> None:
    """Let people speak at once; print the times from a word to the next event of its session.

    Only words that had an event before the next word count.
    """
    with run_server([]) as server:
        words = asyncio.run(_speak(server.url, speakers, 60 / rate, seconds))
    waits = [each for each in words if each < math.inf]
    times = ", ".join(f"p{each} {1000 * np.percentile(waits, each):.0f} ms" for each in (50, 90, 99))
    share = f"{len(waits)} of {len(words)} words with an event before the next one"
    typer.echo(f"{speakers} speakers at {rate:.0f} words a minute, {share}: {times}")


@app.command()
def safety(sessions: int = 20, updates: int = 100_000) -> None:
    """Let sessions grow and be corrected at random, lose connections and move, while engines are killed."""
    with run_server([]) as server:
        outcome = asyncio.run(_try_hard(server, sessions, updates))
    typer.echo(outcome)
    if outcome.taken_back or outcome.missing:
        raise typer.Exit(1)


async def _speak(url: str, speakers: int, interval: float, seconds: float) -> list[float]:
    """Return for each word the seconds to the next event, infinite if the next word came first."""
    generator = random.Random(7)
    end = time.monotonic() + seconds
    starts = [generator.uniform(0, interval) for _ in range(speakers)]
    waits = await asyncio.gather(*(_speaker(url, interval, start, end) for start in starts))
    return [each for own in waits for each in own]


async def _speaker(url: str, interval: float, start: float, end: float) -> list[float]:
    words = " ".join(random.Random(start).sample(SENTENCES, len(SENTENCES))).split()
    waits: list[float] = []
    await asyncio.sleep(start)
    async with connect(_address(url), proxy=None) as socket:
        await _say(socket, LANGUAGES)
        spoken = asyncio.get_running_loop().time()
        for number in range(10**9):
            if time.monotonic() >= end:
                return waits
            sent = time.monotonic()
            await _say(socket, {"append": words[number % len(words)] + " "})
            spoken += interval
            waits.append(math.inf)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(spoken):
                    while True:
                        await socket.recv()
                        waits[-1] = min(waits[-1], time.monotonic() - sent)
    return waits


class Outcome(NamedTuple):
    """The updates of a trial, the characters committed, and how many of them were taken back or never arrived."""

    updates: int
    committed: int
    taken_back: int
    missing: int
    kills: int
    resumptions: int


async def _try_hard(server: Server, sessions: int, updates: int) -> Outcome:
    kills = 0

    async def kill() -> None:
        nonlocal kills
        while True:
            await asyncio.sleep(_KILL_SECONDS)
            for pid in server.engines():
                os.kill(pid, signal.SIGKILL)
                kills += 1

    killing = asyncio.create_task(kill())
    trials = [_Trial(server.url, number, updates // sessions) for number in range(sessions)]
    try:
        await asyncio.gather(*(each.run() for each in trials))
    finally:
        killing.cancel()
    return Outcome(
        sum(each.sent for each in trials),
        sum(len(each.text) for each in trials),
        sum(each.taken_back for each in trials),
        sum(each.missing for each in trials),
        kills,
        sum(each.resumptions for each in trials),
    )


class _Trial:
    """One session over many connections; `text` is what was committed."""

    def __init__(self, url: str, seed: int, updates: int) -> None:
        self._address = _address(url)
        self._random = random.Random(seed)
        self._updates = updates
        self._words = " ".join(SENTENCES).split()
        self.sent = self.taken_back = self.missing = self.resumptions = 0
        self._has_event = asyncio.Event()
        self.text = ""
        self._sentence = ""
        self._known: dict[str, Any] = {}
        self._end = self._segment_end = self._segment = self._last_event = 0

    async def run(self) -> None:
        while self.sent < self._updates:
            try:
                async with connect(self._address, proxy=None) as socket:
                    await self._converse(socket)
            except ConnectionClosed:
                pass
            self.resumptions += 1

    async def _converse(self, socket: ClientConnection) -> None:
        """Go on with the session here, or with a new one as another server would, until the connection is dropped."""
        moves = self._random.random() < 0.3
        session = self._known.get("session")
        if session is None or moves:
            start: dict[str, object] = {"source_start": self._segment_end, "segment": self._segment}
            start |= {"index": len(self.text) - len(self._sentence), "committed": self._sentence}
            await _say(socket, {**LANGUAGES, **start, "latency": "low"})
            self._known, self._last_event = {}, 0
        else:
            await _say(socket, {"session": session, "last_event": self._last_event})
        reading = asyncio.create_task(self._read(socket))
        for _ in range(self._random.randrange(20, 200)):
            if reading.done() or self.sent >= self._updates:
                break
            if not self._known:
                await asyncio.sleep(_TURN_SECONDS)
                continue
            await _say(socket, self._change())
            self.sent += 1
            self._has_event.clear()
            if self._random.random() < _WAITED:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._has_event.wait(), _WAIT_SECONDS)
        socket.transport.abort()
        await asyncio.gather(reading, return_exceptions=True)

    def _change(self) -> dict[str, object]:
        kind = self._random.random()
        if kind < 0.2 and self._end > self._segment_end:
            start = self._random.randrange(max(self._segment_end, self._end - 30), self._end + 1)
            text = self._random.choice(self._words) + " "
            self._end = start + len(text)
            return {"replace_from": start, "text": text}
        if kind < 0.22:
            return {"final": True}
        text = self._words[self.sent % len(self._words)] + " "
        self._end += len(text)
        return {"append": text}

    async def _read(self, socket: ClientConnection) -> None:
        async for message in socket:
            event = json.loads(message)
            self._has_event.set()
            self._last_event = event.get("id", self._last_event)
            match event["event"]:
                case "start":
                    self._known, self._end = event, event["source_end"]
                case "commit":
                    self.taken_back += max(len(self.text) - event["index"], 0)
                    self.missing += max(event["index"] - len(self.text), 0)
                    self.text += event["text"]
                    self._sentence += event["text"]
                case "segment":
                    self.taken_back += self._sentence != event["text"]
                    self._sentence, self._segment, self._segment_end = "", event["segment"] + 1, event["source_end"]
                case "error" if event["code"] in ("unknown_session", "not_ready"):
                    self._known = {}


def _address(url: str) -> str:
    return url.replace("http", "ws", 1) + "/translate/live"


async def _say(socket: ClientConnection, message: object) -> None:
    await socket.send(json.dumps(message))


if __name__ == "__main__":
    app()
