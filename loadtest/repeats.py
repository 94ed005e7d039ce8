"""A check of the cache of finished sentences: what it is worth, and that it changes nothing.

The command is one of `python -m loadtest.promises`. A server without the cache and one with it get the same
requests. Every response and every event has to be the same, byte for byte.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Sequence
from statistics import median
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
_WARM_UP: Final = tuple(f"There are {number} of them." for number in range(200))
_TELLS: Final = ("token", "segment")
"""Events that hold nothing of the clock and of the request's id."""
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
"""The unit in which the system counts processor time: a small piece of work may take none."""
_NAMES: Final = ("strings", "strings_again", "page")

app = typer.Typer()


class Timed(NamedTuple):
    """Seconds of some work, by the clock and of the server's processors, and the responses."""

    seconds: float
    core_seconds: float
    tokens: float
    """Tokens that engines have generated for it."""
    answers: list[str]


class Work(NamedTuple):
    """Measurements and responses of one server."""

    timed: dict[str, Timed]
    events: list[str]
    """Events of streams: of texts that were translated before, and of new ones at the same moment."""
    cache: dict[str, float]


def interface_strings(count: int) -> list[str]:
    """Return strings as programs have them, of which a third repeat others, in a random order."""
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
    rounds: Annotated[int, typer.Option(min=1, help="Turns of both servers; figures are medians.")] = 3,
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
    if figures["different"]:
        raise typer.Exit(1)


def _figures(pairs: Sequence[Sequence[Work]]) -> dict[str, Any]:
    """Compare the two servers of each round; a ratio above 1 is the cache's gain."""
    by_name: dict[str, Any] = {}
    for name in _NAMES:
        timed = [[work.timed[name] for work in pair] for pair in pairs]
        by_name[name] = {
            "seconds_without": median(without.seconds for without, _ in timed),
            "seconds_with": median(kept.seconds for _, kept in timed),
            "ratio": median(without.seconds / kept.seconds for without, kept in timed),
            "core_ratio": median(without.core_seconds / max(kept.core_seconds, _TICK) for without, kept in timed),
            "tokens_without": median(without.tokens for without, _ in timed),
            "tokens_with": median(kept.tokens for _, kept in timed),
        }
        by_name[name] = {key: round(value, 3) for key, value in by_name[name].items()}
    sent = [_sent(work) for pair in pairs for work in pair]
    different = sum(_different(sent[0], each) for each in sent[1:])
    return {**by_name, "compared": len(sent[0]), "different": different, "cache": pairs[0][1].cache}


def _sent(work: Work) -> list[str]:
    return [*(answer for name in _NAMES for answer in work.timed[name].answers), *work.events]


def _different(one: Sequence[str], other: Sequence[str]) -> int:
    """Count responses and events that differ, or that only one of both has."""
    return abs(len(one) - len(other)) + sum(a != b for a, b in zip(one, other, strict=False))


async def _work(server: Server, strings: list[str], clients: int) -> Work:
    page = " ".join(SENTENCES)
    async with connect(server) as client:
        await _answer(client, list(_WARM_UP))
        timed = {
            "strings": await _timed(server, client, [strings]),
            "strings_again": await _timed(server, client, [strings]),
            "page": await _timed(server, client, [page] * clients),
        }
        streams = [await _events(client, strings), await _events(client, page)]
        streams += await asyncio.gather(*(_events(client, page.upper()) for _ in range(clients)))
        metrics = await read_metrics(client)
        kinds = ("hits", "joined", "misses", "evictions")
        counts = {kind: metrics.total(f"dragoman_cache_{kind}_total") for kind in kinds}
        events = [event for stream in streams for event in stream]
        return Work(timed, events, counts | {"bytes": metrics.total("dragoman_cache_bytes")})


async def _timed(server: Server, client: httpx.AsyncClient, requests: Sequence[str | list[str]]) -> Timed:
    tokens = await server.generated_tokens()
    started, before = time.monotonic(), sum(server.processor_seconds())
    answers = await asyncio.gather(*(_answer(client, q) for q in requests))
    seconds, core_seconds = time.monotonic() - started, sum(server.processor_seconds()) - before
    return Timed(seconds, core_seconds, await server.generated_tokens() - tokens, answers)


async def _answer(client: httpx.AsyncClient, q: str | list[str]) -> str:
    response = await client.post("/translate", json={"q": q, "scores": True, **LANGUAGES})
    response.raise_for_status()
    return response.text


async def _events(client: httpx.AsyncClient, q: str | list[str]) -> list[str]:
    """Translate in one stream, and return its events as they were sent."""
    body = {"q": q, "stream": True, **LANGUAGES}
    async with aconnect_sse(client, "POST", "/translate", json=body) as source:
        source.response.raise_for_status()
        sent = [event async for event in source.aiter_sse() if event.data]
    if sent[-1].event != "done":
        raise typer.BadParameter(f"a stream ended with {sent[-1].data}")
    return [f"{event.id.partition('-')[0]} {event.event} {event.data}" for event in sent if event.event in _TELLS]
