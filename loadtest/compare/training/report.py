"""Whether the sides did equal work, and their figures as a table for people and as JSON for programs."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from loadtest.compare.roster import OURS
from loadtest.compare.summary import Spread, ratio, spread
from loadtest.compare.training.meter import Trained
from loadtest.compare.training.work import MODES, SIDES, THEIRS, Mode, Precision
from loadtest.compare.workload import Shape
from model.config import ModelConfig


class UnequalWork(Exception):
    """The sides did not do the same work, so their figures must not be compared."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was asked for."""

    shape: Shape
    rounds: int
    steps: int
    threads: int
    batch_tokens: int
    precision: Precision
    data: str


@dataclass(frozen=True, slots=True)
class Run:
    """One side, once, in one mode."""

    mode: Mode
    side: str
    round: int
    trained: Trained


def check(runs: Sequence[Run], config: ModelConfig) -> None:
    """Raises `UnequalWork` naming everything that makes the figures unfit to compare."""
    problems = []
    for run in runs:
        name, losses = f"{run.side}, {run.mode}, round {run.round}", run.trained.losses
        if not run.trained.dropout:
            problems.append(f"{name}: no dropout")
        if not losses[-1] < losses[0]:
            problems.append(f"{name}: the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
    parameters = _parameters(runs)
    # Pre-norm ends each of the two stacks with a norm, weight and bias, that Marian's post-norm has not.
    final_norms = 4 * config.d_model if config.norm_order == "pre" else 0
    if parameters[OURS] - parameters[THEIRS] != final_norms:
        problems.append(f"parameters: {parameters}, should differ by {final_norms}")
    ours, theirs = (_select(runs, "steps", side) for side in SIDES)
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True), 1):
        if (our.tokens, our.padded_tokens) != (their.tokens, their.padded_tokens):
            problems.append(f"round {number}: {THEIRS} had other batches than {OURS}")
    if problems:
        raise UnequalWork("; ".join(problems))


def speeds(runs: Sequence[Run], mode: Mode, side: str) -> list[float]:
    """Tokens per second, in the order of the rounds."""
    return [trained.tokens_per_second for trained in _select(runs, mode, side)]


def speed_ratio(runs: Sequence[Run], mode: Mode) -> Spread:
    """Over 1: Dragoman is faster."""
    return ratio(speeds(runs, mode, OURS), speeds(runs, mode, THEIRS))


def cpu_ratio(runs: Sequence[Run], mode: Mode) -> Spread:
    """The same by processor time instead of the clock."""
    ours, theirs = ([trained.tokens_per_cpu_second for trained in _select(runs, mode, side)] for side in SIDES)
    return ratio(ours, theirs)


def _select(runs: Sequence[Run], mode: Mode, side: str) -> list[Trained]:
    return [run.trained for run in runs if (run.mode, run.side) == (mode, side)]


def _parameters(runs: Sequence[Run]) -> dict[str, int]:
    return {run.side: run.trained.parameters for run in runs}


def as_table(comparison: Comparison, runs: Sequence[Run]) -> Table:
    """Medians, with the lowest and the highest round."""
    table = Table("mode", "trainer", "tokens/s", "ratio", "padding", "a step", show_edge=False)
    table.title = f"Shape {comparison.shape}, {comparison.precision}, {comparison.threads} threads"
    table.caption = "ratio: Dragoman's tokens/s over theirs; a step: tokens, on average; padding is not counted"
    for mode, side in itertools.product(MODES, SIDES):
        chosen = _select(runs, mode, side)
        over = "" if side == OURS else speed_ratio(runs, mode).text(2)
        tokens = [count for trained in chosen for count in trained.tokens]
        padded = sum(sum(trained.padded_tokens) for trained in chosen)
        share, mean = f"{1 - sum(tokens) / padded:.0%}", f"{sum(tokens) / len(tokens):.0f}"
        table.add_row(mode, side, spread(speeds(runs, mode, side)).text(0), over, share, mean)
    return table


def as_json(comparison: Comparison, runs: Sequence[Run]) -> dict[str, object]:
    """`ratio[mode]` is Dragoman's median over theirs; `raw` has every turn in the order in which it was taken."""
    ratios = {mode: speed_ratio(runs, mode) for mode in MODES}
    cpu_ratios = {mode: cpu_ratio(runs, mode) for mode in MODES}
    return asdict(comparison) | {
        "parameters": _parameters(runs),
        "ratio": {mode: of.median for mode, of in ratios.items()},
        "ratio_range": {mode: [of.lowest, of.highest] for mode, of in ratios.items()},
        "cpu_ratio": {mode: of.median for mode, of in cpu_ratios.items()},
        "cpu_ratio_range": {mode: [of.lowest, of.highest] for mode, of in cpu_ratios.items()},
        "tokens_per_second": {
            mode: {side: spread(speeds(runs, mode, side))._asdict() for side in SIDES} for mode in MODES
        },
        "raw": [_raw(run) for run in runs],
    }


def _raw(run: Run) -> dict[str, object]:
    """Without the parameters, which are the same in every run of a side."""
    figures = asdict(run.trained) | {"tokens_per_second": run.trained.tokens_per_second}
    del figures["parameters"]
    return {"mode": run.mode, "side": run.side, "round": run.round, **figures}
