"""The turns themselves, each side's in a process of its own."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Final

import torch
from rich.console import Console

from loadtest.compare.roster import OURS
from loadtest.compare.training.meter import Trained
from loadtest.compare.training.ours import train_ours
from loadtest.compare.training.report import Comparison, Run
from loadtest.compare.training.theirs import train_theirs
from loadtest.compare.training.work import SIDES, THEIRS, Job, Mode, turns
from loadtest.compare.workload import SHAPES
from model.training.data import PackedPairs
from model.training.train import reuse_large_blocks

TRAINERS: Final[dict[str, Callable[[Job], Trained]]] = {OURS: train_ours, THEIRS: train_theirs}


def measure(comparison: Comparison, pairs: PackedPairs, console: Console) -> list[Run]:
    """All runs, in the order in which they were made; a line of each as soon as it is there."""
    runs: list[Run] = []
    with ExitStack() as stack:
        processes = {side: stack.enter_context(_process(comparison.threads)) for side in SIDES}
        for number, mode, side in turns(comparison.rounds):
            job = _job(comparison, pairs, mode, number)
            trained = processes[side].submit(TRAINERS[side], job).result()
            runs.append(Run(mode, side, number, trained))
            by_cpu = f"{trained.tokens_per_cpu_second:,.0f} by processor time"
            console.print(f"round {number}, {mode}: {side} {trained.tokens_per_second:,.0f} tokens/s ({by_cpu})")
    return runs


def _process(threads: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), _start_process, (threads,))


def _start_process(threads: int) -> None:
    """Both sides reuse large blocks of memory, as `dragoman train` does."""
    torch.set_num_threads(threads)
    reuse_large_blocks()


def _job(comparison: Comparison, pairs: PackedPairs, mode: Mode, number: int) -> Job:
    return Job(
        model=SHAPES[comparison.shape],
        pairs=pairs,
        mode=mode,
        batch_tokens=comparison.batch_tokens,
        steps=comparison.steps,
        precision=comparison.precision,
        seed=number,
    )
