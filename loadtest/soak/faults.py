"""Faults. Each returns when it is over, and reports where the server broke a promise to its requests."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from loadtest.local_server import Said, Server, engine_deaths
from loadtest.sentences import LANGUAGES, SENTENCES
from loadtest.soak import fuzz
from loadtest.soak.canaries import Broken, Canary, Tally
from loadtest.soak.proxy import Weather, proxy
from loadtest.soak.wire import Answer, connect, new_id, parse, post
from service.client import AsyncClient, Busy, ClientError

_ANSWER_SECONDS: Final = 60.0
_DEATH_SECONDS: Final = 60.0
_FLOOD: Final = 10
_NUMBERS: Final = "1. 2. 3. 4. 5. 6. 7. 8. 9.\n" * 100_000
_REFUSALS: Final = frozenset({"queue_full", "not_ready"})


@dataclass
class Site:
    """The server that everything happens to, and what is written down of it."""

    server: Server
    client: httpx.AsyncClient
    rng: random.Random
    log: Path
    engines: int
    capacity: int
    """Sentences that running and waiting requests may have at once."""
    alone: Sequence[tuple[Canary, Said]]
    """Translation of each canary without faults."""
    tally: Tally
    started: float = field(default_factory=time.monotonic)
    problems: list[str] = field(default_factory=list)
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)
    """Outcome of every request that was answered to its end, by its id."""
    replaced_seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from an engine's loss until there are as many engines as before."""
    answered_seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of a canary sent at an engine's loss, since its admission: in a flood it is refused for a while."""
    refusal_seconds: list[float] = field(default_factory=list)
    deaths: int = 0
    surgery: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One engine at a time, and the next when nobody is left who lost it: who loses three is given up, as promised."""

    @property
    def port(self) -> int:
        return int(self.server.url.rsplit(":", 1)[1])

    def count(self, fault: str, outcome: str) -> None:
        self.outcomes.setdefault(fault, Counter())[outcome] += 1

    def note(self, fault: str, request_id: str, answer: Answer, allowed: frozenset[str]) -> None:
        """Write down an answer; one that is not allowed is a problem."""
        self.count(fault, answer.outcome)
        if answer.outcome not in allowed:
            self.problems.append(f"{fault}: {answer.outcome} (status {answer.status}) for {request_id}")
        elif answer.outcome != "cut":
            self.answered[request_id] = answer.outcome
        if answer.status in (429, 503) and "retry-after" not in answer.headers:
            self.problems.append(f"{fault}: status {answer.status} without Retry-After")


Fault = Callable[[Site], Awaitable[None]]


async def engine_killed(site: Site) -> None:
    await _lose(site, "engine_killed", signal.SIGKILL)


async def engine_stopped(site: Site) -> None:
    """Stop an engine; the server must notice and replace it."""
    await _lose(site, "engine_stopped", signal.SIGSTOP)


async def all_killed(site: Site) -> None:
    """Kill all engines and their fork server: the model is loaded again."""
    await _lose(site, "all_killed", signal.SIGKILL, forking=signal.SIGKILL, everyone=True)


async def fork_server_stopped(site: Site) -> None:
    """Stop the fork server; the server notices when it needs an engine, and the other engine survives."""
    await _lose(site, "fork_server_stopped", signal.SIGKILL, forking=signal.SIGSTOP)


async def _lose(
    site: Site, fault: str, how: signal.Signals, *, forking: signal.Signals | None = None, everyone: bool = False
) -> None:
    async with site.surgery:
        engines = site.server.engines()
        lost = engines if everyone else [site.rng.choice(engines)]
        log_bytes = site.log.stat().st_size
        if forking is not None:
            for pid in site.server.fork_servers():
                os.kill(pid, forking)
        for pid in lost:
            os.kill(pid, how)
        site.deaths += len(lost)
        started = time.monotonic()
        replaced = asyncio.create_task(_replaced(site, fault, len(lost), log_bytes))
        # An engine that hangs is noticed when it is given work: the canaries see to that.
        if (seconds := await site.tally.ask(site.client, *site.alone[0])) is not None:
            site.answered_seconds.setdefault(fault, []).append(seconds)
        site.replaced_seconds.setdefault(fault, []).append(await replaced)
        while any(sent < started for sent in site.tally.in_flight.values()):
            if time.monotonic() > started + 2 * _DEATH_SECONDS:
                raise Broken(f"{fault}: requests that lost an engine are not answered")
            await asyncio.sleep(0.1)
        site.count(fault, "replaced")


async def _replaced(site: Site, fault: str, lost: int, log_bytes: int) -> float:
    """Return the seconds until the log after `log_bytes` has as many ready engines as were lost. Raises `Broken`."""
    started = time.monotonic()
    while _ready_since(site.log, log_bytes) < lost or await engine_deaths(site.client) < site.deaths:
        if time.monotonic() > started + _DEATH_SECONDS:
            raise Broken(f"{fault}: no replacement after {_DEATH_SECONDS:.0f} s")
        await asyncio.sleep(0.1)
    return time.monotonic() - started


def _ready_since(log: Path, start: int) -> int:
    with log.open("rb") as lines:
        lines.seek(start)
        return lines.read().count(b'"engine ready"')


async def slow_readers(site: Site) -> None:
    """Read ten or twenty kilobytes a second, and expect everything."""

    async def one() -> None:
        request_id = new_id()
        with site.tally.sent(request_id):
            answer = await slowly(request_id)
        site.note("slow_readers", request_id, answer, _REFUSALS | {"ok"})

    async def slowly(request_id: str) -> Answer:
        async with connect(site.port, slow=True) as connection:
            await connection.send(post(_document(site, 20), request_id))
            began = bytearray()
            for _ in range(site.rng.randrange(50, 200)):
                began += await connection.reader.read(512)
                await asyncio.sleep(0.02)
            rest = bytearray(began)
            while piece := await asyncio.wait_for(connection.reader.read(1 << 14), _ANSWER_SECONDS):
                rest += piece
        return parse(bytes(rest))

    await asyncio.gather(*(one() for _ in range(5)))


async def stuck_readers(site: Site) -> None:
    """Read nothing until the server has closed the connection, or all data is in the connection's buffers."""

    async def one() -> None:
        request_id = new_id()
        body = _document(site, 10)
        # To fill the connection's buffers; numbers are copied, which costs the engines nothing.
        body["q"] = _NUMBERS + body["q"]
        async with connect(site.port, slow=True) as connection:
            await connection.send(post(body, request_id))
            deadline = time.monotonic() + _ANSWER_SECONDS
            # The log is a file of another process.
            while request_id.encode() not in site.log.read_bytes() and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            answer = await connection.answer(_ANSWER_SECONDS)
        site.note("stuck_readers", request_id, answer, _REFUSALS | {"cut", "ok"})

    await asyncio.gather(*(one() for _ in range(2)))


async def half_open(site: Site) -> None:
    """Send nothing, or half of a request, and keep the connection open for a while."""

    async def one(kind: int) -> None:
        whole = post(_document(site, 3), new_id())
        head = whole.index(b"\r\n\r\n") + 4
        async with connect(site.port) as connection:
            await connection.send(whole[: (0, head // 2, head, head + 20)[kind]])
            await asyncio.sleep(site.rng.uniform(1, 4))
            site.count("half_open", "left")
            if site.rng.random() < 0.5:
                connection.abort()

    await asyncio.gather(*(one(number % 4) for number in range(20)))


async def disconnect_storm(site: Site) -> None:
    """Disconnect dozens of clients at any moment, some with a reset."""

    async def one(number: int) -> None:
        async with connect(site.port) as connection:
            body = _document(site, site.rng.randrange(1, 10)) | {"stream": number % 2 == 0}
            await connection.send(post(body, new_id()))
            await asyncio.sleep(site.rng.uniform(0, 0.5))
            site.count("disconnect_storm", "left")
            if number % 3:
                connection.abort()

    await asyncio.gather(*(one(number) for number in range(60)))


async def flood(site: Site) -> None:
    """Send ten times as many sentences as fit at once: each is translated or refused, and none is lost."""

    async def one() -> None:
        request_id = new_id()
        body = {"q": site.rng.choice(SENTENCES), **LANGUAGES}
        with site.tally.sent(request_id):
            async with connect(site.port) as connection:
                await connection.send(post(body, request_id))
                started = time.monotonic()
                answer = await connection.answer(_ANSWER_SECONDS)
        if answer.outcome in _REFUSALS:
            site.refusal_seconds.append(time.monotonic() - started)
        site.note("flood", request_id, answer, _REFUSALS | {"ok"})

    await asyncio.gather(*(one() for _ in range(_FLOOD * site.capacity)))


async def fuzzed(site: Site) -> None:
    """Send broken bodies and headers: each is refused or its connection closed, and nothing fails inside."""
    at_once = asyncio.Semaphore(8)

    async def one() -> None:
        request = fuzz.request(site.rng)
        async with at_once, connect(site.port) as connection:
            try:
                await connection.send(request)
                # Some are not whole: the server waits for the rest, and would for ever.
                answer = await connection.answer(3)
            except OSError:
                answer = Answer(0, {}, b"")  # closed while we were talking
        site.count("fuzzed", f"{answer.status // 100}xx" if answer.status else "closed")
        if answer.status >= 500 and answer.outcome not in ("not_ready", "deadline_exceeded"):
            site.problems.append(f"fuzzed: status {answer.status} {answer.body[:200]!r} for {request[:2000]!r}")

    await asyncio.gather(*(one() for _ in range(60)))


async def crowd(site: Site) -> None:
    """Open many idle connections."""

    async def one() -> None:
        async with connect(site.port):
            await asyncio.sleep(2)
        site.count("crowd", "left")

    await asyncio.gather(*(one() for _ in range(200)))


async def bad_networks(site: Site) -> None:
    """Put proxies between that delay, hold back, are slow and cut: our client still gets every text whole."""

    async def one(canary: Canary, said: Said) -> None:
        cuts = iter(site.rng.sample(range(1, 3000), 2))

        def weather() -> Weather:
            delay, held = site.rng.choice([0.0, 0.02]), site.rng.choice([0, 2000, 50_000])
            return Weather(delay, held, site.rng.choice([None, 20_000.0]), next(cuts, None))

        async with proxy(site.port, weather) as url, AsyncClient(url, retries=10) as client:
            try:
                text = (await client.translate(canary.text, source="en", target="fr", **canary.options)).text
            except Busy:
                site.count("bad_networks", "refused")
            except ClientError as error:
                site.problems.append(f"bad_networks: {error.code} {error}")
            else:
                site.count("bad_networks", "ok")
                if text != said.text:
                    site.problems.append(f"bad_networks: another text for {canary.text[:40]!r}")

    await asyncio.gather(*(one(*each) for each in site.rng.sample(site.alone, 4)))


FAULTS: Final[dict[str, Fault]] = {
    each.__name__: each
    for each in (
        engine_killed,
        engine_stopped,
        all_killed,
        fork_server_stopped,
        slow_readers,
        stuck_readers,
        half_open,
        disconnect_storm,
        flood,
        fuzzed,
        crowd,
        bad_networks,
    )
}


def _document(site: Site, sentences: int) -> dict[str, Any]:
    text = " ".join(site.rng.choices(SENTENCES, k=sentences))
    return {"q": text, **LANGUAGES, "stream": True}
