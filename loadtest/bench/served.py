"""A comparison with another engine's server over HTTP: `python -m loadtest.bench.served --help`.

Both serve the same weights, one after the other in every round, on the same cores; closed loops of some clients send
one line of a file each, and wait for its translation.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, NamedTuple

import httpx
import numpy as np
import sacrebleu
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from loadtest.bench import machine
from loadtest.bench.contenders import CONTENDERS, Contender, Match
from loadtest.bench.process import memory
from loadtest.local_server import free_port

_START_SECONDS: Final = 300.0


class Run(NamedTuple):
    """Figures of one closed loop on a server."""

    sentences_per_second: float
    latencies: list[float]
    """Seconds from request to answer."""
    texts: list[str]


class Served(NamedTuple):
    """A server that answers."""

    url: str
    fields: dict[str, Any]
    """The fields of each request beside its text."""
    pid: int


@contextmanager
def _started(contender: Contender) -> Iterator[Served]:
    port = free_port()
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as directory:
        command = contender.command(port, Path(directory))
        process = subprocess.Popen(command, env=os.environ | contender.environment, stdout=log, stderr=log)
        served = Served(f"http://127.0.0.1:{port}", contender.fields, process.pid)
        try:
            _wait(process, served)
            yield served
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-3000:])
            raise
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], served: Served) -> None:
    """Wait until the server has translated something."""
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            response = httpx.post(f"{served.url}/translate", json={"q": "1.", **served.fields}, timeout=_START_SECONDS)
        except httpx.TransportError:
            pass
        else:
            if response.status_code == httpx.codes.OK:
                return
        time.sleep(0.5)
    raise RuntimeError(f"{served.url} did not start")


async def _closed_loop(served: Served, texts: Sequence[str], clients: int) -> Run:
    waiting = iter(enumerate(texts))
    answers = [""] * len(texts)
    latencies: list[float] = []

    async def translate(http: httpx.AsyncClient, text: str) -> str:
        answer = (await http.post("/translate", json={"q": text, **served.fields})).raise_for_status()
        return str(answer.json()["translatedText"])

    async def client(http: httpx.AsyncClient) -> None:
        for number, text in waiting:
            started = time.perf_counter()
            answers[number] = await translate(http, text)
            latencies.append(time.perf_counter() - started)

    async with AsyncExitStack() as stack:
        # A pool that all clients share would cost more than the servers do.
        pools = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=served.url, timeout=600.0, verify=False))
            for _ in range(clients)
        ]
        # Making a pool and its connection takes as long as some translations, so both are there before the clock runs.
        await asyncio.gather(*(translate(http, texts[0]) for http in pools))
        started = time.perf_counter()
        await asyncio.gather(*map(client, pools))
        return Run(len(texts) / (time.perf_counter() - started), latencies, answers)


def main(  # noqa: PLR0913  each is an option of the command
    model: Annotated[
        Path, typer.Argument(help="Argos package (.argosmodel), or directory of a Firefox model's files.")
    ],
    file: Annotated[Path, typer.Argument(help="A sentence a line, or `sentence<TAB>reference` lines.")],
    against: Annotated[
        str,
        typer.Option(
            help=f"NAME=PROGRAM, NAME one of: {', '.join(CONTENDERS)}. PROGRAM is a Python that has it installed."
        ),
    ],
    flags: Annotated[list[str] | None, typer.Argument(help="Flags of Dragoman's server, after --.")] = None,
    clients: Annotated[str, typer.Option(help="How many at a time.")] = "1,8,32",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each server.")] = 3,
    its_count: Annotated[int, typer.Option(min=1, help="Lines of the file that the other server gets in a run.")] = 100,
    write: Annotated[Path | None, typer.Option("--json", help="Where to write all figures.")] = None,
) -> None:
    """Measure sentences per second, latency and memory of both servers, with the same weights and search."""
    match = _match(model, against, flags or [])
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    numbers = [int(number) for number in clients.split(",")]
    texts = [line[0] for line in lines]
    load = machine.load_average()
    runs, memories = _measure(match.contenders, (texts, texts[:its_count]), numbers, rounds)
    figures = {
        "machine": machine.describe() | {"load_average": load},
        "memory_bytes": memories,
        "runs": [
            {
                "server": name,
                "clients": number,
                "sentences_per_second": [run.sentences_per_second for run in each],
                "latency_p50": float(np.median([x for run in each for x in run.latencies])),
                "latency_p99": float(np.percentile([x for run in each for x in run.latencies], 99)),
            }
            for (name, number), each in runs.items()
        ],
    } | _compared({name: runs[name, numbers[0]][0] for name in memories}, lines[:its_count], match.copied_marks)
    _print(figures, list(memories), numbers)
    if write is not None:
        write.write_text(json.dumps(figures, indent=2), encoding="utf-8")


def _match(model: Path, against: str, flags: Sequence[str]) -> Match:
    name, _, program = against.partition("=")
    if name not in CONTENDERS or not program:
        raise typer.BadParameter(f"must be NAME=PROGRAM, NAME one of: {', '.join(CONTENDERS)}", param_hint="--against")
    try:
        return CONTENDERS[name](model, Path(program), flags)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="MODEL") from None


def _measure(
    contenders: Sequence[Contender], texts: Sequence[Sequence[str]], numbers: Sequence[int], rounds: int
) -> tuple[dict[tuple[str, int], list[Run]], dict[str, int]]:
    """Return the runs by server and number of clients, and the most bytes of memory of each server."""
    runs: dict[tuple[str, int], list[Run]] = {(each.name, number): [] for number in numbers for each in contenders}
    memories = {each.name: 0 for each in contenders}
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=rounds * len(runs))
        for _ in range(rounds):
            for each, its_texts in zip(contenders, texts, strict=True):
                with _started(each) as served:
                    for number in numbers:
                        runs[each.name, number].append(asyncio.run(_closed_loop(served, its_texts, number)))
                        bar.advance(task)
                    memories[each.name] = max(memories[each.name], memory(served.pid))
    return runs, memories


def _compared(runs: dict[str, Run], lines: Sequence[Sequence[str]], ignored_marks: str) -> dict[str, Any]:
    """Compare both translations of the same lines, ours first, without these marks at their ends."""
    texts = {name: [text.rstrip(ignored_marks) for text in run.texts[: len(lines)]] for name, run in runs.items()}
    ours, theirs = texts.values()
    compared = {
        "same_text": sum(map(str.__eq__, ours, theirs)) / len(lines),
        "bleu_of_ours_with_theirs_as_reference": sacrebleu.corpus_bleu(ours, [theirs]).score,
        "texts": texts,
    }
    if all(len(line) > 1 for line in lines):
        references = [[line[1].rstrip(ignored_marks) for line in lines]]
        compared["bleu"] = {name: sacrebleu.corpus_bleu(each, references).score for name, each in texts.items()}
    return compared


def _print(figures: dict[str, Any], names: Sequence[str], numbers: Sequence[int]) -> None:
    table = Table("clients", *(f"{name} {what}" for name in names for what in ("/s", "p50 s", "p99 s")), "ratio")
    for number in numbers:
        cells, rates = [], []
        for name in names:
            [run] = [each for each in figures["runs"] if (each["server"], each["clients"]) == (name, number)]
            rates.append(median(run["sentences_per_second"]))
            cells += [f"{rates[-1]:.1f}", f"{run['latency_p50']:.3f}", f"{run['latency_p99']:.3f}"]
        table.add_row(str(number), *cells, f"{rates[0] / rates[1]:.1f}")
    console = Console()
    console.print(table)
    for name, size in figures["memory_bytes"].items():
        console.print(f"{name}: {size / 1e6:.0f} MB after its runs")
    console.print(f"same text: {figures['same_text']:.1%}; BLEU: {figures.get('bleu', 'no references')}")
    console.print(f"BLEU of ours with the other's as reference: {figures['bleu_of_ours_with_theirs_as_reference']:.1f}")


if __name__ == "__main__":
    typer.run(main)
