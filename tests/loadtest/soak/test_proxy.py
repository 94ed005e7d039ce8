"""The proxy of the soak does what it says."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from loadtest.soak.proxy import Weather, proxy

SENT = b"0123456789" * 2000


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server that says in two pieces what it has to say, and waits for the end of the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(SENT[:1000])
        await reader.readline()
        writer.write(SENT[1000:])
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def _read(port: int, weather: Weather) -> bytes:
    async with proxy(port, lambda: weather) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        writer.write(b"one\n")
        first = await reader.read(1)
        writer.write(b"two\n")
        received = first
        while len(received) < len(SENT) and (piece := await reader.read(1 << 16)):
            received += piece
        writer.close()
        return received


@pytest.mark.parametrize(
    "weather", [Weather(), Weather(0.001), Weather(held_bytes=50_000), Weather(bytes_per_second=100_000.0)]
)
async def test_everything_arrives(port: int, weather: Weather) -> None:
    """Held-back data arrives, too, though the connection stays open."""
    assert await _read(port, weather) == SENT


@pytest.mark.parametrize("bytes_", [1, 999, 1500, 19_999])
async def test_a_cut_is_exact(port: int, bytes_: int) -> None:
    assert await _read(port, Weather(cut_after_bytes=bytes_)) == SENT[:bytes_]


async def test_its_end_closes_a_connection_of_the_same_moment(port: int) -> None:
    is_accepted = asyncio.Event()

    def weather() -> Weather:
        is_accepted.set()
        return Weather()

    async with proxy(port, weather) as url:
        connecting = asyncio.create_task(asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1])))
        await is_accepted.wait()
    reader, writer = await connecting
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("steps", range(12))
async def test_its_end_closes_a_connection_that_is_ending(port: int, steps: int) -> None:
    """A connection that is not closed warns, and a warning fails the test."""
    async with proxy(port, Weather) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
        await asyncio.sleep(0.05)
        writer.transport.abort()
        for _ in range(steps):
            await asyncio.sleep(0)
    gc.collect()
