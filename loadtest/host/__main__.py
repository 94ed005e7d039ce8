"""Tokens that the HTTP process streams in a second of its processor time: `python -m loadtest.host --help`.

Its engines compute nothing, so they are not the limit. Processor time, so that neither the clients nor other programs
are measured: a process that serves so many tokens in a second of it serves no more on a core of its own.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import psutil
import typer

from loadtest.local_server import ServerFailed, run_server
from loadtest.sentences import LANGUAGES, SENTENCES

_WARM_UP_SECONDS: Final = 0.5
_READ_BYTES: Final = 1 << 20
_TOKEN: Final = b"event: token\r\n"
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_LONG_TEXT: Final = 64
"""Sentences of a long text."""
_WINDOW: Final = 16
"""Sentences of a long text that are decoded at once, about."""


def main(
    rows: Annotated[str, typer.Option(help="Sentences that are decoded at once, comma-separated.")] = "1,64,256,1024",
    rounds: Annotated[int, typer.Option(min=1, help="The command prints medians of the rounds.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of each run.")] = 3.0,
) -> None:
    """Print the speed of the HTTP process for single sentences and for long texts."""
    # A sentence of average length.
    sentence = sorted(SENTENCES, key=len)[len(SENTENCES) // 2]
    long_text = " ".join(SENTENCES[number % len(SENTENCES)] for number in range(_LONG_TEXT))
    folder = str(Path(__file__).parent / "null_engine")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    for level in map(int, rows.split(",")):
        speeds = [
            (_speed(level, level, sentence, seconds), _speed(level, max(1, level // _WINDOW), long_text, seconds))
            for _ in range(rounds)
        ]
        sentences, long_texts = (round(median(column)) for column in zip(*speeds, strict=True))
        typer.echo(json.dumps({"rows": level, "single_sentences": sentences, "long_texts": long_texts}))


def _speed(rows: int, streams: int, text: str, seconds: float) -> float:
    settings: dict[str, object] = {
        "--device": "cpu",
        "--mode": "int8",
        "--replicas": 1,
        "--threads": 1,
        "--slots": rows,
    }
    with run_server([str(part) for setting in settings.items() for part in setting]) as server:
        return asyncio.run(_read_streams(server.port, psutil.Process(server.pid), text, streams, seconds))


async def _read_streams(port: int, server: psutil.Process, text: str, streams: int, seconds: float) -> float:
    """Keep so many streams running; return the tokens per second of the server's processor time."""
    tokens = [0] * streams
    request = _request(port, {"q": text, **LANGUAGES, "stream": True})
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(_read(port, request, tokens, number)) for number in range(streams)]
        await asyncio.sleep(_WARM_UP_SECONDS)
        before, used = sum(tokens), _processor_seconds(server)
        await asyncio.sleep(seconds)
        speed = (sum(tokens) - before) / (_processor_seconds(server) - used)
        for reader in readers:
            reader.cancel()
    return speed


def _processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _request(port: int, body: Mapping[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def _read(port: int, request: bytes, tokens: list[int], number: int) -> None:
    """Read one stream after the other to its last byte, and nothing else, so that the server is the limit."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_READ_BYTES)
    while True:
        writer.write(request)
        tail = b""
        while not tail.endswith(_LAST_CHUNK):
            data = await reader.read(_READ_BYTES)
            if not data or not (tail or data.startswith(b"HTTP/1.1 200")) or b"event: error\r\n" in data:
                raise ServerFailed(f"a stream ended with {data[:200]!r}")
            # An event may be cut anywhere.
            tokens[number] += (tail[-len(_TOKEN) + 1 :] + data).count(_TOKEN)
            tail = (tail + data)[-len(_TOKEN) - len(_LAST_CHUNK) :]


if __name__ == "__main__":
    typer.run(main)
