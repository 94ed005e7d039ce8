"""`python -m loadtest.bench`: Dragoman's engine and its peers on the same weights and the same requests."""

import json
import math
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.bench import machine
from loadtest.bench.measure import measure, run_count
from loadtest.bench.peers import Comparison, WrongLength
from loadtest.bench.process import PeerDied
from loadtest.bench.report import Result, Run, as_json, tables
from loadtest.bench.roster import ENTRIES, OURS
from loadtest.bench.weights import TRAINED, Shape, shape_config
from model.config import ModelConfig
from service.engine.modes import MODES
from service.errors import ServiceError
from service.process.hardware import usable_cores, usable_device
from service.settings.values import default_slots, fastest_mode

_RANDOM_ONLY: Final = "transformers"


def bench(  # noqa: PLR0913  each is an option of the command
    shape: Annotated[
        Shape,
        typer.Option(
            help="base: d512, 6+6 layers, 32,000 words; default: the embedded model's; both with random weights. "
            "trained: the embedded model itself, on sentences."
        ),
    ],
    against: Annotated[
        str | None, typer.Option(help=f"Comma-separated, of: {', '.join(name for name in ENTRIES if name != OURS)}.")
    ] = None,
    concurrency: Annotated[str, typer.Option(help="Requests in flight, comma-separated.")] = "1,4,16,64",
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each engine at each concurrency.")] = 5,
    batches: Annotated[int, typer.Option(min=1, help="Requests of a run, in multiples of --concurrency.")] = 8,
    cores: Annotated[int, typer.Option(min=1, max=usable_cores(), help="Cores of each engine.")] = usable_cores(),
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Dragoman's engine processes (default: one for each core; one on a GPU).")
    ] = None,
    device: Annotated[str, typer.Option(help="Device of Dragoman and transformers: auto, cpu, cuda, ...")] = "auto",
    mode: Annotated[str | None, typer.Option(help="Mode of Dragoman's engine (default: by its device).")] = None,
    cpu_variant: Annotated[
        Literal["auto", "amx", "avx512vnni", "avxvnni", "avx2"],
        typer.Option(help="Instruction set of Dragoman's C++ operators and, but for AMX, of CTranslate2."),
    ] = "auto",
    lend_threads: Annotated[
        bool, typer.Option(help="Dragoman's engines without work lend their threads, as in the server.")
    ] = True,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write ratios and raw figures to this file.")] = None,
) -> None:
    """Compare Dragoman's engine with others on the same weights and requests, taking turns.

    Without --against, the others are CTranslate2, in int8 or in Dragoman's float32, and transformers; on a GPU
    transformers alone, and with trained weights CTranslate2 alone. See loadtest/README.md.
    """
    if json_file is not None and not os.access(json_file.parent, os.W_OK):
        # Fail now, and not after half an hour.
        raise typer.BadParameter(f"{json_file.parent} cannot be written to", param_hint="--json")
    device = usable_device(device)
    if shape == TRAINED and device != "cpu":
        raise typer.BadParameter("trained is for the CPU: pass --device cpu", param_hint="--shape")
    mode = mode or fastest_mode({"device": device})
    peers = _peers(against if against is not None else _default_peers(shape, mode, device))
    if shape == TRAINED and _RANDOM_ONLY in peers:
        raise typer.BadParameter(f"{_RANDOM_ONLY} has random weights only, not trained ones", param_hint="--against")
    levels = _numbers("--concurrency", concurrency)
    engines = replicas or (cores if device == "cpu" else 1)
    comparison = Comparison(
        shape=shape,
        mode=_known_mode(mode, device),
        peers=[OURS, *peers],
        cores=cores,
        replicas=engines,
        rounds=rounds,
        concurrency=levels,
        batches=batches,
        device=device,
        slots=max(default_slots({"device": device}), math.ceil(max(levels) / engines)),
        cpu_variant=cpu_variant,
        lends_threads=lend_threads,
    )
    try:
        _run(comparison, shape_config(shape), json_file)
    except (WrongLength, PeerDied, ServiceError) as error:
        typer.echo(f"dragoman: {error}", err=True)
        raise typer.Exit(2) from None


def _run(comparison: Comparison, config: ModelConfig, json_file: Path | None) -> None:
    console = Console()
    load_at_start = machine.load_average()
    warning = machine.warning(load_at_start)
    if warning is not None:
        console.print(warning, style="bold red")
    result = _measure(comparison, config, console)
    for table in tables(comparison, result):
        console.print(table, "")
    if json_file is not None:
        loads = {"load_average_at_start": load_at_start, "load_average_at_end": machine.load_average()}
        report = as_json(comparison, result, machine.describe() | loads)
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if warning is not None:
        console.print(warning, style="bold red")


def _measure(comparison: Comparison, config: ModelConfig, console: Console) -> Result:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # No refresh by a thread of its own: it would take time from whatever is being measured.
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        task = progress.add_task("warm-up", total=run_count(comparison))

        def show(run: Run) -> None:
            speed = f"{run.measured.tokens_per_second:.0f} tokens/s"
            description = f"{run.peer}, {run.concurrency} in flight: {speed}"
            progress.update(task, advance=1, description=description, refresh=True)

        return measure(comparison, config, show)


def _default_peers(shape: Shape, mode: str, device: str) -> str:
    if device != "cpu":
        return _RANDOM_ONLY
    ctranslate2 = "ctranslate2-fp32" if mode == "fp32" else "ctranslate2"
    return ctranslate2 if shape == TRAINED else f"{ctranslate2},{_RANDOM_ONLY}"


def _peers(against: str) -> list[str]:
    names = list(dict.fromkeys(name for name in against.split(",") if name))
    if unknown := [name for name in names if name not in ENTRIES or name == OURS]:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}", param_hint="--against")
    if missing := [name for name in names if find_spec(ENTRIES[name].package or "torch") is None]:
        raise typer.BadParameter(f"{missing[0]} is not installed: pip install '.[load]'", param_hint="--against")
    return names


def _known_mode(mode: str, device: str) -> str:
    modes = [name for name, each in MODES.items() if device.partition(":")[0] in each.runners]
    if not modes:
        raise typer.BadParameter("must be auto, cpu, cuda, cuda:1 or the like", param_hint="--device")
    if mode not in modes:
        raise typer.BadParameter(f"must be one of {', '.join(modes)}", param_hint="--mode")
    return mode


def _numbers(option: str, text: str) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) <= 0:
        raise typer.BadParameter("must be positive numbers, like 1,4,16", param_hint=option)
    return numbers


app = typer.Typer(add_completion=False)
app.command()(bench)


if __name__ == "__main__":
    app()
