"""Clients that are slow, stuck, rude, gone or too many, and networks between them and the server."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

from loadtest.local_server import StreamedTranslation
from loadtest.sentences import LANGUAGES, SENTENCES
from loadtest.soak import fuzz
from loadtest.soak.canaries import Canary
from loadtest.soak.proxy import Weather, proxy
from loadtest.soak.site import Site
from loadtest.soak.wire import Answer, connect, new_id, parse, post
from service.client import AsyncClient, Busy, ClientError, Unreachable

_ANSWER_SECONDS: Final = 60.0
_FLOOD: Final = 10
_NUMBERS: Final = "1. 2. 3. 4. 5. 6. 7. 8. 9.\n" * 100_000
_REFUSALS: Final = frozenset({"queue_full", "not_ready"})


async def slow_readers(site: Site) -> None:
    """Read ten or twenty kilobytes a second, and expect everything."""

    async def one() -> None:
        request_id, started = new_id(), time.monotonic()
        answer = await slowly(request_id)
        site.note("slow_readers", request_id, answer, _REFUSALS | {"ok"}, started)

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

    await site.all_of("slow_readers", [one() for _ in range(5)])


async def stuck_readers(site: Site) -> None:
    """Read nothing until the server has closed the connection, or all data is in the connection's buffers."""

    async def one() -> None:
        request_id, started = new_id(), time.monotonic()
        log_bytes = site.places.log.stat().st_size
        body = _document(site, 10)
        # To fill the connection's buffers; numbers are copied, which costs the engines nothing.
        body["q"] = _NUMBERS + body["q"]
        async with connect(site.port, slow=True) as connection:
            await connection.send(post(body, request_id))
            # The log is a file of another process.
            while not (  # noqa: ASYNC110
                _is_logged(site.places.log, request_id, log_bytes)
                or site.supervisor.was_down_since(started)
                or time.monotonic() > started + _ANSWER_SECONDS
            ):
                await asyncio.sleep(0.5)
            answer = await connection.answer(_ANSWER_SECONDS)
        site.note("stuck_readers", request_id, answer, _REFUSALS | {"cut", "ok"}, started)

    await site.all_of("stuck_readers", [one() for _ in range(2)])


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

    await site.all_of("half_open", [one(number % 4) for number in range(20)])


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

    await site.all_of("disconnect_storm", [one(number) for number in range(60)])


async def flood(site: Site) -> None:
    """Send ten times as many sentences as fit at once: each is translated or refused, and none is lost."""

    async def one() -> None:
        request_id, started = new_id(), time.monotonic()
        body = {"q": site.rng.choice(SENTENCES), **LANGUAGES}
        async with connect(site.port) as connection:
            await connection.send(post(body, request_id))
            sent = time.monotonic()
            answer = await connection.answer(_ANSWER_SECONDS)
        if answer.outcome in _REFUSALS:
            site.refusal_seconds.append(time.monotonic() - sent)
        site.note("flood", request_id, answer, _REFUSALS | {"ok"}, started)

    await site.all_of("flood", [one() for _ in range(_FLOOD * site.capacity)])


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

    await site.all_of("fuzzed", [one() for _ in range(60)])


async def crowd(site: Site) -> None:
    """Open many idle connections."""

    async def one() -> None:
        async with connect(site.port):
            await asyncio.sleep(2)
        site.count("crowd", "left")

    await site.all_of("crowd", [one() for _ in range(200)])


async def bad_networks(site: Site) -> None:
    """Put proxies between that delay, hold back, are slow and cut: our client still gets every text whole."""

    async def one(canary: Canary, expected: StreamedTranslation) -> None:
        started = time.monotonic()
        cuts = iter(site.rng.sample(range(1, 3000), 2))

        def weather() -> Weather:
            delay, held = site.rng.choice([0.0, 0.02]), site.rng.choice([0, 2000, 50_000])
            return Weather(delay, held, site.rng.choice([None, 20_000.0]), next(cuts, None))

        async with proxy(site.port, weather) as url, AsyncClient(url, retries=10) as client:
            try:
                text = (await client.translate(canary.text, source="en", target="fr", **canary.options)).text
            except Busy:
                site.count("bad_networks", "refused")
            except Unreachable as error:
                if site.supervisor.was_down_since(started):
                    site.count("bad_networks", "cut by a killed server")
                else:
                    site.problems.append(f"bad_networks: {error}")
            except ClientError as error:
                site.problems.append(f"bad_networks: {error.code} {error}")
            else:
                site.count("bad_networks", "ok")
                if text != expected.text:
                    site.problems.append(f"bad_networks: another text for {canary.text[:40]!r}")

    await site.all_of("bad_networks", [one(*each) for each in site.rng.sample(site.alone, 4)])


def _is_logged(log: Path, request_id: str, start: int) -> bool:
    with log.open("rb") as lines:
        lines.seek(start)
        return request_id.encode() in lines.read()


def _document(site: Site, sentences: int) -> dict[str, Any]:
    text = " ".join(site.rng.choices(SENTENCES, k=sentences))
    return {"q": text, **LANGUAGES, "stream": True}
