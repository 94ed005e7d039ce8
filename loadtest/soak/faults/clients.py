"""Clients that are slow, stuck, gone or too many."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import httpx

from loadtest.sentences import LANGUAGES, SENTENCES
from loadtest.soak.site import CUT, ENGINES, SLOTS, WAITING, Site, new_id

_ANSWER_SECONDS: Final = 60.0
_SMALL: Final = 2048
"""Bytes of a slow reader's buffer, so that its slowness is felt at the other end."""
_NUMBERS: Final = "1. 2. 3. 4. 5. 6. 7. 8. 9.\n" * 100_000
_REFUSALS: Final = frozenset({"queue_full", "not_ready"})

Pause = Callable[[], Awaitable[object]]


async def slow_readers(site: Site) -> None:
    """Read ten or twenty kilobytes a second, and expect everything."""
    async with _slow_client(site) as client:
        bodies = [_document(site, 20) for _ in range(5)]
        await _all(
            _ask(site, "slow_readers", each, {"ok", *_REFUSALS}, client, lambda: asyncio.sleep(0.1)) for each in bodies
        )


async def stuck_readers(site: Site) -> None:
    """Read nothing until the server has closed the connection, or all data is in the connection's buffers."""

    async def one(client: httpx.AsyncClient) -> None:
        body, request_id, started = _document(site, 10), new_id(), time.monotonic()
        log_bytes = site.places.log.stat().st_size

        async def is_over() -> None:
            while time.monotonic() < started + _ANSWER_SECONDS and not site.supervisor.was_down_since(started):
                with site.places.log.open("rb") as log:
                    log.seek(log_bytes)
                    if request_id.encode() in log.read():
                        return
                await asyncio.sleep(0.5)

        # Numbers fill the connection's buffers; they are copied, which costs the engines nothing.
        body["q"] = _NUMBERS + body["q"]
        await _ask(site, "stuck_readers", body, {"ok", CUT, *_REFUSALS}, client, is_over, request_id)

    async with _slow_client(site) as client:
        await _all(one(client) for _ in range(2))


async def half_open(site: Site) -> None:
    """Hold a hundred connections open, send nothing, half of a request or noise, and leave."""
    content = json.dumps(_document(site, 3)).encode()
    whole = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(content) + content

    async def one(number: int) -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
            noise = site.rng.randbytes(1000)
            writer.write((b"", b"", whole[:20], whole[: -len(content)], whole[:-5], noise)[number % 6])
            await asyncio.sleep(site.rng.uniform(1, 4))
            writer.transport.abort()
        site.count("half_open", "left")

    await _all(one(number) for number in range(100))


async def disconnect_storm(site: Site) -> None:
    """Disconnect dozens of clients at any moment."""

    async def one(number: int) -> None:
        body = _document(site, site.rng.randrange(1, 10)) | {"stream": number % 2 == 0}
        with suppress(TimeoutError, httpx.TransportError):
            async with asyncio.timeout(site.rng.uniform(0, 0.5)):
                await site.client.post("/translate", json=body)
        site.count("disconnect_storm", "left")

    await _all(one(number) for number in range(60))


async def flood(site: Site) -> None:
    """Send ten times as many sentences as fit at once: each is translated or refused, and none is lost."""
    bodies = [{"q": site.rng.choice(SENTENCES), **LANGUAGES} for _ in range(10 * (ENGINES * SLOTS + WAITING))]
    await _all(_ask(site, "flood", body, {"ok", *_REFUSALS}, site.client) for body in bodies)


async def _ask(  # noqa: PLR0913  the client's way of reading is one more
    site: Site,
    fault: str,
    body: dict[str, Any],
    allowed: set[str],
    client: httpx.AsyncClient,
    pause: Pause | None = None,
    request_id: str = "",
) -> None:
    """Send a request, read its answer with a pause before each piece, and note its outcome."""
    request_id, started, received = request_id or new_id(), time.monotonic(), b""
    try:
        headers = {"X-Request-ID": request_id}
        async with (
            asyncio.timeout(2 * _ANSWER_SECONDS),
            client.stream("POST", "/translate", json=body, headers=headers) as response,
        ):
            if response.status_code in (429, 503) and "retry-after" not in response.headers:
                site.problems.append(f"{fault}: status {response.status_code} without Retry-After")
            pieces = response.aiter_raw()
            while True:
                if pause is not None:
                    await pause()
                received += await anext(pieces)
    except StopAsyncIteration:
        outcome = _outcome(received)
    except (httpx.TransportError, TimeoutError):
        outcome = CUT
    site.note(fault, request_id, outcome, allowed, started)


def _outcome(received: bytes) -> str:
    """Return `ok`, the code of an error, or `cut`, of a whole answer, JSON or a stream."""
    if b"event: done\r\n" in received:
        return "ok"
    *_, last = received.partition(b"event: error\r\ndata: ") if b"event: " in received else (received,)
    try:
        return str(json.loads(last).get("code", "ok"))
    except ValueError:
        return CUT


@asynccontextmanager
async def _slow_client(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)]
    transport = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0), socket_options=small)
    async with httpx.AsyncClient(transport=transport, base_url=site.server.url, timeout=_ANSWER_SECONDS) as client:
        yield client


async def _all(clients: Iterable[Coroutine[Any, Any, object]]) -> None:
    async with asyncio.TaskGroup() as group:
        for each in clients:
            group.create_task(each)


def _document(site: Site, sentences: int) -> dict[str, Any]:
    return {"q": " ".join(site.rng.choices(SENTENCES, k=sentences)), **LANGUAGES, "stream": True}
