"""The command: `python -m loadtest.compare.training --help`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from loadtest.compare.training.measure import measure
from loadtest.compare.training.report import Comparison, as_json, as_table, check, cpu_ratio
from loadtest.compare.training.work import MODES, PAIRS, Precision, pairs_of_file, synthetic_pairs
from loadtest.compare.workload import SHAPES, Shape


def main(  # noqa: PLR0913 - the options of a command
    shape: Annotated[Shape, typer.Option(help="Of both models.")] = "small",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each side in each mode.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Counted steps of a turn.")] = 20,
    batch_tokens: Annotated[int, typer.Option(min=64, help="Tokens a batch, padding included.")] = 4096,
    data: Annotated[Path | None, typer.Option(help="TSV of pairs; synthetic ones without it.")] = None,
    precision: Annotated[Precision, typer.Option(help="Of both sides.")] = "float32",
    threads: Annotated[int, typer.Option(min=1, help="Of each side.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write ratios and raw figures to this file.")] = None,
) -> None:
    """Compare training throughput, on new weights of one shape."""
    config = SHAPES[shape]
    comparison = Comparison(shape, rounds, steps, threads, batch_tokens, precision, str(data or "synthetic"))
    pairs = pairs_of_file(data, PAIRS, config) if data else synthetic_pairs(PAIRS, config)
    console = Console()
    console.print(f"{len(pairs):,} pairs ({comparison.data}), {pairs.lengths().mean():.1f} tokens a side")
    runs = measure(comparison, pairs, console)
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(comparison, runs), indent=2) + "\n", encoding="utf-8")
    console.print(as_table(comparison, runs))
    by_cpu = "; ".join(f"{mode} {cpu_ratio(runs, mode).text(2)}" for mode in MODES)
    console.print(f"Ratio by processor time instead of the clock: {by_cpu}")
    check(runs, config)


if __name__ == "__main__":
    typer.run(main)
