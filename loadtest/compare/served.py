"""A comparison with LibreTranslate over HTTP: `python -m loadtest.compare.served --help`.

Both serve the same Argos package, one after the other in every round, on the same cores; closed loops of some clients
send one line of a file each, and wait for its translation.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

from loadtest.compare import machine
from loadtest.compare.process import memory
from loadtest.local_server import free_port
from service.interpreter import python_command

_START_SECONDS: Final = 300.0
_NAMES: Final = ("dragoman", "libretranslate")
_MARKS: Final = ".!?。！？"
# What LibreTranslate decodes with, always.
_ITS_SEARCH: Final = {"beam_size": 4, "length_penalty": 0.2}


class Run(NamedTuple):
    """Figures of one closed loop on a server."""

    sentences_per_second: float
    latencies: list[float]
    """Seconds from request to answer."""
    texts: list[str]


class Served(NamedTuple):
    """A server that answers."""

    url: str
    source: str
    target: str
    pid: int


@contextmanager
def _started(
    command: Sequence[str], environment: dict[str, str], languages: tuple[str, str], port: int
) -> Iterator[Served]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(process, url, languages)
            yield Served(url, *languages, process.pid)
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-3000:])
            raise
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, languages: tuple[str, str]) -> None:
    """Wait until the server has translated something."""
    end = time.monotonic() + _START_SECONDS
    request = {"q": "1.", "source": languages[0], "target": languages[1]}
    while process.poll() is None and time.monotonic() < end:
        try:
            if httpx.post(f"{url}/translate", json=request, timeout=_START_SECONDS).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"{url} did not start")


@contextmanager
def _server(name: str, package: Path, python: Path) -> Iterator[Served]:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        with zipfile.ZipFile(package) as archive:
            archive.extractall(directory)
        [metadata] = Path(directory).glob("*/metadata.json")
        described = json.loads(metadata.read_bytes())
        if name == "dragoman":
            command = python_command("-m", "service", "serve", "--model", str(package), "--port", str(port))
            languages = described["from_code"], described["to_code"]
            with _started([*command, "--log-level", "error", "--cache-mb", "0"], {}, languages, port) as served:
                yield served
        else:
            script = Path(__file__).with_name("libretranslate_server.py")
            # Its own name for the simplified kind.
            languages = {"zh": "zh-Hans"}.get(described["from_code"], described["from_code"]), described["to_code"]
            command = [str(python), "-P", str(script), str(port), directory]
            with _started(command, {"PYTHONPATH": ""}, languages, port) as served:
                yield served


async def _closed_loop(served: Served, texts: Sequence[str], clients: int, search: dict[str, Any]) -> Run:
    waiting = iter(enumerate(texts))
    answers = [""] * len(texts)
    latencies: list[float] = []
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=served.url, timeout=600.0, limits=limits) as http:

        async def client() -> None:
            for number, text in waiting:
                started = time.perf_counter()
                request = {"q": text, "source": served.source, "target": served.target, **search}
                answer = (await http.post("/translate", json=request)).raise_for_status()
                latencies.append(time.perf_counter() - started)
                answers[number] = answer.json()["translatedText"]

        started = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        return Run(len(texts) / (time.perf_counter() - started), latencies, answers)


def main(  # noqa: PLR0913  each is an option of the command
    package: Annotated[Path, typer.Argument(help="Argos package (.argosmodel).")],
    file: Annotated[Path, typer.Argument(help="A sentence a line, or `sentence<TAB>reference` lines.")],
    libretranslate: Annotated[Path, typer.Option(help="A Python interpreter that has LibreTranslate installed.")],
    clients: Annotated[str, typer.Option(help="How many at a time.")] = "1,8,32",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each server.")] = 3,
    its_count: Annotated[int, typer.Option(min=1, help="Lines of the file that LibreTranslate gets in a run.")] = 100,
    write: Annotated[Path | None, typer.Option("--json", help="Where to write all figures.")] = None,
) -> None:
    """Measure sentences per second, latency and memory of both servers, with the same weights and beams."""
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = [line[0] for line in lines]
    numbers = [int(number) for number in clients.split(",")]
    runs: dict[tuple[str, int], list[Run]] = {(name, number): [] for number in numbers for name in _NAMES}
    memories = dict.fromkeys(_NAMES, 0)
    load = machine.load_average()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=rounds * len(runs))
        for _ in range(rounds):
            for name in _NAMES:
                with _server(name, package, libretranslate) as served:
                    for number in numbers:
                        some = texts if name == "dragoman" else texts[:its_count]
                        search = _ITS_SEARCH if name == "dragoman" else {}
                        runs[name, number].append(asyncio.run(_closed_loop(served, some, number, search)))
                        bar.advance(task)
                    used = memory(served.pid)
                    memories[name] = max(memories[name], used.resident if used else 0)
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
    } | _compared({name: runs[name, numbers[0]][0] for name in _NAMES}, lines[:its_count])
    _print(figures, numbers)
    if write is not None:
        write.write_text(json.dumps(figures, indent=2), encoding="utf-8")


def _compared(runs: dict[str, Run], lines: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Compare both translations of the same lines, without the last mark, where LibreTranslate puts the source's."""
    texts = {name: [text.rstrip(_MARKS) for text in runs[name].texts[: len(lines)]] for name in _NAMES}
    ours, theirs = texts.values()
    compared = {
        "same_text": sum(map(str.__eq__, ours, theirs)) / len(lines),
        "bleu_of_ours_with_theirs_as_reference": sacrebleu.corpus_bleu(ours, [theirs]).score,
        "texts": texts,
    }
    if all(len(line) > 1 for line in lines):
        references = [[line[1].rstrip(_MARKS) for line in lines]]
        compared["bleu"] = {name: sacrebleu.corpus_bleu(each, references).score for name, each in texts.items()}
    return compared


def _print(figures: dict[str, Any], numbers: Sequence[int]) -> None:
    table = Table("clients", *(f"{name} {what}" for name in _NAMES for what in ("/s", "p50 s", "p99 s")), "ratio")
    for number in numbers:
        cells, rates = [], []
        for name in _NAMES:
            [run] = [each for each in figures["runs"] if (each["server"], each["clients"]) == (name, number)]
            rates.append(median(run["sentences_per_second"]))
            cells += [f"{rates[-1]:.1f}", f"{run['latency_p50']:.3f}", f"{run['latency_p99']:.3f}"]
        table.add_row(str(number), *cells, f"{rates[0] / rates[1]:.1f}")
    console = Console()
    console.print(table)
    for name, size in figures["memory_bytes"].items():
        console.print(f"{name}: {size / 1e6:.0f} MB after its runs")
    console.print(f"same text: {figures['same_text']:.1%}; BLEU: {figures.get('bleu', 'no references')}")
    console.print(f"BLEU with LibreTranslate's as reference: {figures['bleu_of_ours_with_theirs_as_reference']:.1f}")


if __name__ == "__main__":
    typer.run(main)
