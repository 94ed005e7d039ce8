"""`python -m loadtest.bench --host`: the figures of `measure`, as a table and as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import typer
from rich.console import Console
from rich.table import Table

from loadtest.bench import machine
from loadtest.host.clients import StreamFailed
from loadtest.host.measure import LONG_TEXT, HostSpeed, measure_host
from loadtest.local_server import ServerFailed
from service.errors import ServiceError

_SECONDS: Final = 3.0
"""Duration of each run."""


def run_host(levels: Sequence[int], rounds: int, json_file: Path | None) -> None:
    """Print the median of the rounds at each level, and write all of them to `json_file`."""
    console = Console()
    load = machine.load_average()
    try:
        runs = [speed for _ in range(rounds) for speed in _reported(levels, console)]
    except (ServiceError, ServerFailed, StreamFailed) as error:
        typer.echo(f"dragoman: {error}", err=True)
        raise typer.Exit(2) from None
    console.print(_table(levels, runs), "")
    if json_file is not None:
        loads = {"load_average_at_start": load, "load_average_at_end": machine.load_average()}
        report = {"machine": machine.describe() | loads, "runs": [each._asdict() for each in runs]}
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _reported(levels: Sequence[int], console: Console) -> list[HostSpeed]:
    speeds = []
    for speed in measure_host(levels, _SECONDS):
        console.print(
            f"{speed.rows} rows: engine {speed.engine:,.0f}, HTTP {speed.long_texts:,.0f} in long texts, "
            f"{speed.sentences:,.0f} in single sentences"
        )
        speeds.append(speed)
    return speeds


def _table(levels: Sequence[int], runs: Sequence[HostSpeed]) -> Table:
    table = Table(title="Tokens/s of processor time, with a runner that computes nothing (median)")
    columns = (
        "rows",
        "engine process",
        f"HTTP process, texts of {LONG_TEXT} sentences",
        "HTTP process, single sentences",
    )
    for name in columns:
        table.add_column(name, justify="right")
    for rows in levels:
        own = [run for run in runs if run.rows == rows]
        medians = (median(column) for column in zip(*(run[1:] for run in own), strict=True))
        table.add_row(str(rows), *(f"{speed:,.0f}" for speed in medians))
    return table
