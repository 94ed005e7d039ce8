"""A check of the cache of finished sentences: what it is worth, and that it changes nothing.

The command is one of `python -m loadtest.checks.promises`. A server without the cache and one with it get the same
requests. Every event has to be the same, byte for byte.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import httpx
import typer
from httpx_sse import aconnect_sse

from loadtest.local_server import Server, connect, read_metrics, run_server
from loadtest.sentences import LANGUAGES, SENTENCES

_ACTIONS: Final = tuple("Open Close Save Delete Rename Copy Move Print Share Hide Show Edit Add Remove Find".split())
_THINGS: Final = tuple(
    "file folder window page picture message account contact list table image document key device network".split()
)
_ENDINGS: Final = ("", " and close it", " again", " for all users", "?", " in a new window")
_DISTINCT_SHARE: Final = 2 / 3
_TELLS: Final = ("token", "segment")
"""Events that hold nothing of the clock and of the request's id."""

app = typer.Typer()


class Timed(NamedTuple):
    """Seconds of some work, and everything that was sent: one list of events for each client."""

    seconds: float
    events: list[list[str]]


class Work(NamedTuple):
    """What one server has done."""

    strings: Timed
    strings_again: Timed
    page: Timed
    cache: dict[str, float]


def interface_strings(count: int) -> list[str]:
    """Return strings as programs have them, of which a third repeat earlier ones, in a random order."""
    generator = random.Random(1)
    distinct = round(count * _DISTINCT_SHARE)
    every = [f"{action} the {thing}{end}" for action in _ACTIONS for thing in _THINGS for end in _ENDINGS]
    if distinct > len(every):
        raise typer.BadParameter(f"--strings: no more than {round(len(every) / _DISTINCT_SHARE)} can be made")
    chosen = generator.sample(every, distinct)
    strings = chosen + generator.choices(chosen, k=count - distinct)
    generator.shuffle(strings)
    return strings


@app.command()
def repeats(
    flags: Annotated[list[str] | None, typer.Argument(help="Flags of both servers, after --.")] = None,
    strings: Annotated[int, typer.Option(min=3, help="Interface strings of one request; a third repeat.")] = 1000,
    clients: Annotated[int, typer.Option(min=1, help="Clients that send the same page at once.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of both servers; times are the medians.")] = 3,
) -> None:
    """Send repeated strings, and one page from many clients, to a server without the cache and one with it."""
    texts = interface_strings(strings)
    pairs = []
    for _ in range(rounds):
        pair = []
        for cache in ("0", "64"):
            with run_server(["--cache-mb", cache, *(flags or [])]) as server:
                pair.append(asyncio.run(_work(server, texts, clients)))
        pairs.append(pair)
    figures = _figures(pairs)
    typer.echo(json.dumps(figures, indent=1))
    if figures["different_events"]:
        raise typer.Exit(1)


def _figures(pairs: Sequence[Sequence[Work]]) -> dict[str, Any]:
    """Compare the servers of each round; ratios are the median's of the rounds, as all figures."""
    by_name: dict[str, Any] = {}
    for name in ("strings", "strings_again", "page"):
        timed = [[getattr(work, name) for work in pair] for pair in pairs]
        by_name[name] = {
            "seconds_without": _median([without.seconds for without, _ in timed]),
            "seconds_with": _median([with_it.seconds for _, with_it in timed]),
            "ratio": _median([without.seconds / with_it.seconds for without, with_it in timed]),
        }
    works = [work for pair in pairs for work in pair]
    all_events = [[*work.strings.events, *work.strings_again.events, *work.page.events] for work in works]
    return {
        **by_name,
        "events": sum(map(len, all_events[0])),
        "different_events": sum(_different(all_events[0], each) for each in all_events[1:]),
        "cache": works[1].cache,
    }


def _median(values: Sequence[float]) -> float:
    return round(sorted(values)[len(values) // 2], 3)


def _different(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> int:
    """Count events that differ, or are missing in one of both."""
    pairs = zip(one, other, strict=True)
    return sum(abs(len(a) - len(b)) + sum(x != y for x, y in zip(a, b, strict=False)) for a, b in pairs)


async def _work(server: Server, texts: list[str], clients: int) -> Work:
    async with connect(server) as client:
        await _events(client, ["I am a cat."])  # what a server does at its first request only
        strings = await _timed(client, [texts])
        again = await _timed(client, [texts])
        page = await _timed(client, [[" ".join(SENTENCES)]] * clients)
        metrics = await read_metrics(client)
        kinds = ("hits", "joined", "misses", "evictions")
        counts = {kind: metrics.total(f"dragoman_cache_{kind}_total") for kind in kinds}
        return Work(strings, again, page, counts | {"bytes": metrics.total("dragoman_cache_bytes")})


async def _timed(client: httpx.AsyncClient, requests: Sequence[list[str]]) -> Timed:
    started = time.monotonic()
    events = await asyncio.gather(*(_events(client, texts) for texts in requests))
    return Timed(time.monotonic() - started, events)


async def _events(client: httpx.AsyncClient, texts: list[str]) -> list[str]:
    """Translate texts in one stream, and return its events as they were sent."""
    body = {"q": texts, "stream": True, **LANGUAGES}
    async with aconnect_sse(client, "POST", "/translate", json=body) as source:
        source.response.raise_for_status()
        sent = [event async for event in source.aiter_sse() if event.data]
    if sent[-1].event != "done":
        raise typer.BadParameter(f"a stream ended with {sent[-1].data}")
    return [f"{event.id} {event.event} {event.data}" for event in sent if event.event in _TELLS]
