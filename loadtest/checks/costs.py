"""What a translation costs in processor time, for planning: `python -m loadtest.checks.costs --help`.

Processor time, because that is what is paid for, and because it says the same on a busy machine, or nearly.
"""

import asyncio
import json
import os
import random
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from loadtest.local_server import Server, run_server
from loadtest.sentences import LANGUAGES, SENTENCES
from loadtest.soak.wire import connect, new_id, post

_ANSWER_SECONDS: Final = 120.0


def main(
    flags: Annotated[list[str] | None, typer.Argument(help="Behind --: the server's flags.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Of one sentence each.")] = 2000,
    in_flight: Annotated[int, typer.Option(min=1, help="At any time.")] = 32,
    stream: Annotated[bool, typer.Option(help="As server-sent events.")] = True,
) -> None:
    """Translate sentences in a closed loop; the processor time of the HTTP process and of the engines for them."""
    with run_server(flags or []) as server:
        result = asyncio.run(_measure(server, requests, in_flight, stream))
    typer.echo(json.dumps(result, indent=1))


async def _measure(server: Server, requests: int, in_flight: int, stream: bool) -> dict[str, Any]:
    texts = iter(random.Random(1).choices(SENTENCES, k=requests))
    port = int(server.url.rsplit(":", 1)[1])
    characters = 0

    async def lane(texts: Any) -> None:
        nonlocal characters
        for text in texts:
            async with connect(port) as connection:
                await connection.send(post({"q": text, **LANGUAGES, "stream": stream}, new_id()))
                answer = await connection.answer(_ANSWER_SECONDS)
            if answer.outcome != "ok":
                raise RuntimeError(f"a request ended with {answer.outcome}")
            characters += len(text)

    # The first requests pay for what is done once.
    await asyncio.gather(*(lane(iter(SENTENCES[:8])) for _ in range(4)))
    characters = 0
    before, started, tokens = _processor_seconds(server), time.monotonic(), await server.generated_tokens()
    await asyncio.gather(*(lane(texts) for _ in range(in_flight)))
    seconds = time.monotonic() - started
    http, *engines = (after - early for after, early in zip(_processor_seconds(server), before, strict=True))
    generated = await server.generated_tokens() - tokens
    return {
        "requests": requests,
        "in_flight": in_flight,
        "stream": stream,
        "characters": characters,
        "generated_tokens": int(generated),
        "wall_seconds": round(seconds, 2),
        "http_core_seconds": round(http, 2),
        "engine_core_seconds": round(sum(engines), 2),
        "tokens_per_engine_core_second": round(generated / sum(engines)),
        "tokens_per_core_second": round(generated / (http + sum(engines))),
        "characters_per_core_second": round(characters / (http + sum(engines))),
        "requests_per_http_core_second": round(requests / http),
        "core_seconds_per_million_characters": round(1e6 * (http + sum(engines)) / characters, 1),
    }


def _processor_seconds(server: Server) -> list[float]:
    """User and system time of the HTTP process, then of each engine (proc(5), fields 14 and 15 of stat)."""
    ticks = os.sysconf("SC_CLK_TCK")
    times = []
    for pid in (server.pid, *server.engines()):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        times.append((int(fields[11]) + int(fields[12])) / ticks)
    return times


if __name__ == "__main__":
    typer.run(main)
