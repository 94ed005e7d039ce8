"""The network between a server and its clients: a TCP proxy that delays, holds back, limits the rate and cuts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

_HOST: Final = "127.0.0.1"
_PIECE_BYTES: Final = 4096
_HOLD_SECONDS: Final = 0.2


class Weather(NamedTuple):
    """Disturbances of the responses on one connection."""

    delay_seconds: float = 0.0
    """Delay of each piece that is passed on."""
    held_bytes: int = 0
    """Bytes that are held back until more come, or none has come for a moment, as a buffering proxy does."""
    bytes_per_second: float | None = None
    cut_after_bytes: int | None = None


@asynccontextmanager
async def proxy(port: int, weather: Callable[[], Weather]) -> AsyncIterator[str]:
    """Run a proxy before the server at `port`; yield its port. `weather` is called for each connection."""
    carrying: set[asyncio.Task[None]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_connect(reader, writer, port, weather()))
        carrying.add(task)
        task.add_done_callback(carrying.discard)
        # A task that is cancelled before its first step closes nothing itself.
        task.add_done_callback(lambda _: writer.close())

    server = await asyncio.start_server(serve, _HOST, 0)
    try:
        yield f"http://{_HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(carrying):
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, weather: Weather) -> None:
    try:
        answers, requests = await asyncio.open_connection(_HOST, port)
    except OSError:
        return
    ways = [
        asyncio.create_task(_carry(reader, requests, Weather())),
        asyncio.create_task(_carry(answers, writer, weather)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # First, since the end of the proxy may cancel this task a second time.
        requests.transport.abort()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, weather: Weather) -> None:
    left = weather.cut_after_bytes
    held = bytearray()
    at_end = False
    while not at_end and left != 0:
        try:
            async with asyncio.timeout(_HOLD_SECONDS if held else None):
                piece = await reader.read(_PIECE_BYTES)
            at_end = not piece
            held += piece
            if not at_end and len(held) < weather.held_bytes:
                continue
        except TimeoutError:
            pass
        passed, held = bytes(held[:left]), bytearray()
        left = None if left is None else left - len(passed)
        pause = weather.delay_seconds + (len(passed) / weather.bytes_per_second if weather.bytes_per_second else 0)
        await asyncio.sleep(pause)
        writer.write(passed)
        await writer.drain()
