"""Generated tokens per second of Dragoman's engine and its peers: `python -m loadtest.compare.throughput --help`.

Every round gives each peer the same requests, one peer after the other, at each concurrency; the
next round has new requests. A first, shorter round is not counted.
"""

import itertools
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.compare.ctranslate2_peer import ctranslate2_float32, ctranslate2_int8
from loadtest.compare.dragoman import dragoman
from loadtest.compare.marian import marian
from loadtest.compare.peers import PeerFactory
from loadtest.compare.report import OURS, Comparison, Run, as_json, as_table
from loadtest.compare.workload import SHAPES, Shape, make_requests, request_count

# A new peer is one more line here; a round asks them in this order.
PEERS: Final[dict[str, PeerFactory]] = {
    OURS: dragoman,
    "ctranslate2": ctranslate2_int8,
    "ctranslate2-fp32": ctranslate2_float32,
    "transformers": marian,
}

_WARM_UP: Final = 0
"""Number of the round that is not counted."""


def main(
    shape: Annotated[Shape, typer.Option(help="Of every model.")] = "small",
    concurrency: Annotated[str, typer.Option(help="Requests in flight, comma-separated.")] = "1,4,16,64",
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each peer at each concurrency.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every peer.")] = os.cpu_count() or 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write ratios and raw figures to this file.")] = None,
) -> None:
    """Compare generated tokens per second, engine by engine, on random weights of one shape."""
    comparison = Comparison(shape, threads, rounds, _levels(concurrency))
    console = Console()
    runs = measure(comparison, console)
    console.print(as_table(comparison, runs))
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(comparison, runs), indent=2) + "\n", encoding="utf-8")


def _levels(concurrency: str) -> list[int]:
    try:
        levels = [int(level) for level in concurrency.split(",")]
    except ValueError:
        levels = []
    if not levels or min(levels) < 1:
        raise typer.BadParameter("must be positive numbers, like 1,4,16", param_hint="--concurrency")
    return levels


def measure(comparison: Comparison, console: Console) -> list[Run]:
    """All runs that count, in the order in which they were made."""
    config = SHAPES[comparison.shape]
    runs: list[Run] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        peers = {name: stack.enter_context(build(config, comparison.threads)) for name, build in PEERS.items()}
        # No refresh by a thread of its own: it would take time from a peer that runs in this process.
        progress = stack.enter_context(Progress(*columns, console=console, auto_refresh=False))
        task = progress.add_task("warm-up", total=len(comparison.concurrency) * (comparison.rounds + 1) * len(peers))
        for number, level in itertools.product(range(comparison.rounds + 1), comparison.concurrency):
            count = level if number == _WARM_UP else request_count(level)
            requests = make_requests(count, config, seed=number)
            for name, peer in peers.items():
                run = Run(name, level, number, peer.run(requests, level))
                if number != _WARM_UP:
                    runs.append(run)
                progress.update(task, advance=1, description=_description(run), refresh=True)
    return runs


def _description(run: Run) -> str:
    return f"{run.peer}, {run.concurrency} in flight: {run.measured.tokens_per_second:.0f} tokens/s"


if __name__ == "__main__":
    typer.run(main)
