"""Clients that read streams to the last byte and do nothing else, so that the server is what is measured."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

_TOKEN: Final = b"event: token\r\n"
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_OK: Final = b"HTTP/1.1 200"
_ERROR: Final = b"event: error\r\n"
_READ_BYTES: Final = 1 << 20


class StreamFailed(Exception):
    """A stream did not come to its end."""


class Progress(NamedTuple):
    """The tokens that a run has read, and the processor time that the server took for it."""

    tokens: int
    processor_seconds: float


async def read_streams(
    port: int,
    body: Mapping[str, object],
    streams: int,
    seconds: tuple[float, float],
    processor_seconds: Callable[[], float],
) -> Progress:
    """Keep so many streams running for `seconds`, warm-up and measurement; only tokens of the latter count.

    Raises `StreamFailed`.
    """
    counter = _Counter()
    request = _request(port, body)
    try:
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(_read_one_after_the_other(port, request, counter)) for _ in range(streams)]
            await asyncio.sleep(seconds[0])
            tokens, used = counter.tokens, processor_seconds()
            await asyncio.sleep(seconds[1])
            progress = Progress(counter.tokens - tokens, processor_seconds() - used)
            for reader in readers:
                reader.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return progress


class _Counter:
    def __init__(self) -> None:
        self.tokens = 0


def _request(port: int, body: Mapping[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def _read_one_after_the_other(port: int, request: bytes, counter: _Counter) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_READ_BYTES)
    try:
        while True:
            writer.write(request)
            tail = b""
            while not tail.endswith(_LAST_CHUNK):
                if not (data := await reader.read(_READ_BYTES)):
                    raise StreamFailed("the server closed a stream before its end")
                if not (tail or data.startswith(_OK)) or _ERROR in data:
                    raise StreamFailed(f"the server answered {data[:200]!r}")
                counter.tokens += _count(tail, data)
                tail = (tail + data)[-len(_TOKEN) - len(_LAST_CHUNK) :]
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def _count(tail: bytes, data: bytes) -> int:
    """Count the token events in `data`, one that began in `tail` included."""
    overlap = tail[-len(_TOKEN) + 1 :]
    return (overlap + data).count(_TOKEN)
