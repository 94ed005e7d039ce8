"""Processor time of translations, of the HTTP process and of the engines: `python -m loadtest.costs --help`.

Starts a server of its own; flags after `--` are the server's.
"""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from loadtest.local_server import Server, ServerFailed, connect, run_server
from loadtest.sentences import LANGUAGES, SENTENCES

_SEED: Final = 1


def main(
    flags: Annotated[list[str] | None, typer.Argument(help="Flags of the server, after --.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Requests of one sentence each.")] = 2000,
    in_flight: Annotated[int, typer.Option(min=1, help="Requests in flight at any time.")] = 32,
    stream: Annotated[bool, typer.Option(help="Translate as server-sent events.")] = True,
    options: Annotated[str, typer.Option(help="More fields of each request, as JSON: '{\"beam_size\": 4}'.")] = "{}",
) -> None:
    """Translate sentences in a closed loop; print the processor time of the HTTP process and of the engines."""
    body = {**LANGUAGES, "stream": stream, **json.loads(options)}
    with run_server(flags or []) as server:
        figures = asyncio.run(_costs(server, requests, in_flight, body))
    asked = {"requests": requests, "in_flight": in_flight, "body": body}
    typer.echo(json.dumps(asked | figures, indent=1))


async def _costs(server: Server, requests: int, in_flight: int, body: dict[str, Any]) -> dict[str, Any]:
    texts = random.Random(_SEED).choices(SENTENCES, k=requests)
    async with connect(server) as client:

        async def lane(texts: Iterator[str]) -> None:
            for text in texts:
                answer = await client.post("/translate", json={"q": text, **body})
                if answer.is_error or "event: error" in answer.text:
                    raise ServerFailed(f"{text!r}: {answer.text}")

        # The first requests pay for what is done once.
        await asyncio.gather(*(lane(iter(SENTENCES[:8])) for _ in range(4)))
        before, started, tokens = server.processor_seconds(), time.monotonic(), await server.generated_tokens()
        queue = iter(texts)
        await asyncio.gather(*(lane(queue) for _ in range(in_flight)))
    seconds = time.monotonic() - started
    http, *engines = (after - early for after, early in zip(server.processor_seconds(), before, strict=True))
    generated = await server.generated_tokens() - tokens
    characters, all_seconds = sum(map(len, texts)), http + sum(engines)
    return {
        "characters": characters,
        "generated_tokens": int(generated),
        "wall_seconds": round(seconds, 2),
        "http_core_seconds": round(http, 2),
        "engine_core_seconds": round(sum(engines), 2),
        "tokens_per_engine_core_second": round(generated / sum(engines)),
        "tokens_per_core_second": round(generated / all_seconds),
        "characters_per_core_second": round(characters / all_seconds),
        "requests_per_http_core_second": round(requests / http),
        "core_seconds_per_million_characters": round(1e6 * all_seconds / characters, 1),
    }


if __name__ == "__main__":
    typer.run(main)
