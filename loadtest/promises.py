"""What Dragoman promises, checked at a size that no test has time for: `python -m loadtest.promises --help`.

Each command starts a server of its own; flags behind `--` are the server's (`-- --replicas 2`).
"""

import asyncio
import json
import lzma
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import httpx
import typer
from httpx_sse import aconnect_sse
from rich.progress import track

_START_SECONDS: Final = 60.0
_LANES: Final = 64
_ARRAY: Final = 7  # sentences of one array
_LANGUAGES: Final = {"source": "en", "target": "fr"}

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
FileArgument = Annotated[Path, typer.Argument(help="A sentence a line, or source<TAB>reference; plain or .xz.")]
FlagsArgument = Annotated[list[str] | None, typer.Argument(help="Behind --: the server's flags.")]
OptionsOption = Annotated[str, typer.Option(help="More fields of each request, as JSON: '{\"beam_size\": 4}'.")]


class Said(NamedTuple):
    """A translation, and the log-probability of each of its tokens."""

    text: str
    logprobs: tuple[float, ...]


class Server:
    """A `dragoman serve` that was started here."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process = process
        self.url = url

    def engines(self) -> list[int]:
        """Process ids."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    def resident_megabytes(self) -> list[float]:
        """Of the HTTP process, then of each engine."""
        return [_resident_megabytes(pid) for pid in (self._process.pid, *self.engines())]


@app.command()
def independence(
    file: FileArgument,
    flags: FlagsArgument = None,
    count: Annotated[int, typer.Option(help="Sentences.")] = 2000,
    options: Annotated[str, typer.Option(help="More fields of each request, as JSON: '{\"beam_size\": 4}'.")] = "{}",
) -> None:
    """Every sentence alone, then all in random company: the same texts, and the same log-probabilities bit for bit."""
    sentences = _sentences(file, count)
    body = _LANGUAGES | json.loads(options)
    with _server(flags or []) as server:
        alone, mixed, arrays = asyncio.run(_independence(server, sentences, body))
    for name, texts in (("in an array", arrays), ("streamed among others", [each.text for each in mixed])):
        equal = sum(one.text == other for one, other in zip(alone, texts, strict=True))
        typer.echo(f"{name}: {equal} of {len(alone)} texts as alone")
    bits = sum(one == other for one, other in zip(alone, mixed, strict=True))
    typer.echo(f"streamed among others: {bits} of {len(alone)} with the same log-probabilities, bit for bit")
    if mixed != alone or arrays != [each.text for each in alone]:
        raise typer.Exit(1)


@app.command()
def survival(
    file: FileArgument,
    flags: FlagsArgument = None,
    streams: Annotated[int, typer.Option(help="Streams that run when an engine is killed.")] = 50,
    kills: Annotated[int, typer.Option(help="How many times an engine is killed.")] = 1,
    options: OptionsOption = "{}",
) -> None:
    """kill -9 of an engine while streams run: the same texts as without."""
    sentences = _sentences(file, streams * 8)
    # Long enough to be running still when the engine dies.
    texts = [" ".join(sentences[start::streams]) for start in range(streams)]
    body = _LANGUAGES | json.loads(options)
    with _server(flags or []) as server:
        undisturbed = asyncio.run(_all_at_once(server, texts, body, []))
        disturbed = asyncio.run(_all_at_once(server, texts, body, [0.3 * (number + 1) for number in range(kills)]))
    equal = sum(one == other for one, other in zip(undisturbed, disturbed, strict=True))
    typer.echo(f"{equal} of {streams} streams gave the same text and log-probabilities with {kills} engines killed")
    if equal < streams:
        raise typer.Exit(1)


@app.command()
def memory(
    file: FileArgument,
    flags: FlagsArgument = None,
    requests: Annotated[int, typer.Option(help="How many, 64 at a time.")] = 20_000,
    options: OptionsOption = "{}",
) -> None:
    """Resident memory while requests go through; the first tenth is left out of the growth."""
    sentences = _sentences(file, 2000)
    body = _LANGUAGES | json.loads(options)
    with _server(flags or []) as server:
        readings = asyncio.run(_memory(server, sentences, body, requests))
    for done, megabytes in readings:
        typer.echo(f"{done:6} requests: " + ", ".join(f"{each:.1f}" for each in megabytes) + " MB")
    growth = [last - first for first, last in zip(readings[1][1], readings[-1][1], strict=True)]
    typer.echo("growth after the first tenth: " + ", ".join(f"{each:.1f}" for each in growth) + " MB")


async def _independence(
    server: Server, sentences: Sequence[str], body: dict[str, Any]
) -> tuple[list[Said], list[Said], list[str]]:
    async with _client(server) as client:
        alone = [await _stream(client, sentence, body) for sentence in track(sentences, "alone")]
        order = list(range(len(sentences)))
        random.Random(1).shuffle(order)
        mixed: dict[int, Said] = {}
        arrays: dict[int, str] = {}

        async def stream(index: int) -> None:
            mixed[index] = await _stream(client, sentences[index], body)

        async def array(indices: list[int]) -> None:
            texts = await _translate(client, [sentences[index] for index in indices], body)
            arrays.update(zip(indices, texts, strict=True))

        jobs: list[Callable[[], Awaitable[None]]] = [lambda index=index: stream(index) for index in order]  # type: ignore[misc]
        jobs += [
            lambda indices=order[start : start + _ARRAY]: array(indices)  # type: ignore[misc]
            for start in range(0, len(order), _ARRAY)
        ]
        random.Random(2).shuffle(jobs)
        await _in_lanes(jobs, "in random company")
    return alone, [mixed[index] for index in sorted(order)], [arrays[index] for index in sorted(order)]


async def _all_at_once(
    server: Server, texts: Sequence[str], body: dict[str, Any], kill_after: Sequence[float]
) -> list[Said]:
    async def kill() -> None:
        started = time.monotonic()
        for seconds in kill_after:
            await asyncio.sleep(started + seconds - time.monotonic())
            os.kill(server.engines()[0], signal.SIGKILL)

    async with _client(server) as client:
        killing = asyncio.create_task(kill())
        said = await asyncio.gather(*(_stream(client, text, body) for text in texts))
        if not killing.done():
            raise typer.BadParameter(
                "the streams ended before all engines were killed: give more, or longer, sentences"
            )
    return said


async def _memory(
    server: Server, sentences: Sequence[str], body: dict[str, Any], requests: int
) -> list[tuple[int, list[float]]]:
    readings = [(0, server.resident_megabytes())]
    async with _client(server) as client:
        for part in range(10):

            async def one(number: int) -> None:
                await _translate(client, [sentences[number % len(sentences)]], body)

            numbers = range(part * requests // 10, (part + 1) * requests // 10)
            await _in_lanes([lambda number=number: one(number) for number in numbers], f"part {part + 1} of 10")  # type: ignore[misc]
            readings.append((numbers.stop, server.resident_megabytes()))
    return readings


async def _in_lanes(jobs: Sequence[Callable[[], Awaitable[None]]], description: str) -> None:
    queue = iter(track(jobs, description))

    async def lane() -> None:
        for job in queue:
            await job()

    await asyncio.gather(*(lane() for _ in range(_LANES)))


async def _stream(client: httpx.AsyncClient, text: str, body: dict[str, Any]) -> Said:
    pieces: list[str] = []
    logprobs: list[float] = []
    async with aconnect_sse(client, "POST", "/translate", json={"q": text, "stream": True, **body}) as stream:
        async for event in stream.aiter_sse():
            data = event.json()
            if event.event == "token":
                pieces.append(data["text"])
                logprobs.append(data["logprob"])
            elif event.event == "error":
                raise RuntimeError(f"{text!r}: {data['error']}")
            elif event.event == "done" and "".join(pieces) != data["translatedText"]:
                raise RuntimeError(f"{text!r}: the tokens give another text than the end")
    return Said("".join(pieces), tuple(logprobs))


async def _translate(client: httpx.AsyncClient, texts: list[str], body: dict[str, Any]) -> list[str]:
    response = await client.post("/translate", json={"q": texts, **body})
    response.raise_for_status()
    translated: list[str] = response.json()["translatedText"]
    return translated


def _client(server: Server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=server.url, timeout=120.0, limits=limits)


def _sentences(file: Path, count: int) -> list[str]:
    opener = lzma.open if file.suffix == ".xz" else open
    with opener(file, "rt", encoding="utf-8") as lines:
        sentences = [source for line in lines if (source := line.rstrip("\n").partition("\t")[0].strip())]
    if len(sentences) < count:
        raise typer.BadParameter(f"{file} has {len(sentences)} sentences, {count} are needed")
    return sentences[:count]


@contextmanager
def _server(flags: Sequence[str]) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Whoever waits is served: refusals are not what is looked at here.
    ours = ["--port", str(port), "--log-level", "error", "--max-waiting", "10000"]
    command = [sys.executable, "-m", "service", "serve", *ours, *flags]
    process = subprocess.Popen(command)
    server = Server(process, f"http://127.0.0.1:{port}")
    try:
        _wait_until_ready(process, server.url)
        yield server
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise typer.Exit(2)  # it has said why
        try:
            if httpx.get(f"{url}/readyz").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"the server was not ready after {_START_SECONDS:.0f} s")


def _resident_megabytes(pid: int) -> float:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1000


if __name__ == "__main__":
    app()
