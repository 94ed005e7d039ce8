"""A comparison's figures: what they come to, and as JSON for programs."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from loadtest.bench.peers import Comparison, Measured, Memory
from loadtest.bench.roster import OURS

PERCENTS: Final = (50, 99)

Waits = Callable[[Measured], list[float]]
"""Seconds, of one run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One peer, once, with this concurrency."""

    peer: str
    concurrency: int
    round: int
    measured: Measured


@dataclass(frozen=True, slots=True)
class Result:
    """Runs in the order in which they were made, and each peer's memory after them (None where unknown)."""

    runs: list[Run]
    memory: dict[str, Memory | None]


class Spread(NamedTuple):
    """Median and range of the rounds of one measurement."""

    median: float
    lowest: float
    highest: float

    def text(self, digits: int) -> str:
        """Return `median (lowest-highest)` with so many digits after the point."""
        return f"{self.median:.{digits}f} ({self.lowest:.{digits}f}-{self.highest:.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """Return median and range of `values`, which must not be empty."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the ratio of our medians to theirs, with the lowest and highest ratio of any round.

    Both are in the order of the rounds; figures of one round were taken one after the other, so they
    share whatever else the machine was doing.
    """
    rounds = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Spread(statistics.median(ours) / statistics.median(theirs), min(rounds), max(rounds))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]


def first_tokens(measured: Measured) -> list[float]:
    """Return the waits for first tokens."""
    return [answer.first_token_seconds for answer in measured.answers]


def inter_token(measured: Measured) -> list[float]:
    """Return the waits for later tokens; none for a peer that returns a whole batch at once."""
    return [gap for answer in measured.answers for gap in answer.gaps]


def select(runs: Sequence[Run], peer: str, concurrency: int) -> list[Run]:
    """Return the runs of a peer with this concurrency, in the order of the rounds."""
    return [run for run in runs if (run.peer, run.concurrency) == (peer, concurrency)]


def speeds(runs: Sequence[Run], peer: str, concurrency: int) -> list[float]:
    """Return tokens per second, in the order of the rounds."""
    return [run.measured.tokens_per_second for run in select(runs, peer, concurrency)]


def speed_ratio(runs: Sequence[Run], peer: str, concurrency: int) -> Spread:
    """Return the ratio of speeds; over 1: Dragoman is faster."""
    return ratio(speeds(runs, OURS, concurrency), speeds(runs, peer, concurrency))


def wait(runs: Sequence[Run], waits: Waits, percent: float) -> float | None:
    """Return a percentile of all requests of all runs; None without waits."""
    values = [seconds for run in runs for seconds in waits(run.measured)]
    return percentile(values, percent) if values else None


def as_json(comparison: Comparison, result: Result, machine: dict[str, object]) -> dict[str, object]:
    """Return JSON: `ratio[peer][concurrency]` is Dragoman's median over the peer's; `raw` has every run that counts."""
    runs = result.runs
    others = [peer for peer in comparison.peers if peer != OURS]
    ratios = {peer: {str(level): speed_ratio(runs, peer, level) for level in comparison.concurrency} for peer in others}
    return asdict(comparison) | {
        "machine": machine,
        "ratio": {peer: {level: of.median for level, of in levels.items()} for peer, levels in ratios.items()},
        "ratio_range": {
            peer: {level: [of.lowest, of.highest] for level, of in levels.items()} for peer, levels in ratios.items()
        },
        "memory_bytes": {peer: memory and memory._asdict() for peer, memory in result.memory.items()},
        "raw": [_raw(run) for run in runs],
    }


def _raw(run: Run) -> dict[str, object]:
    waits = {"time_to_first_token_seconds": first_tokens, "inter_token_seconds": inter_token}
    return {
        "peer": run.peer,
        "concurrency": run.concurrency,
        "round": run.round,
        "requests": len(run.measured.answers),
        "tokens": run.measured.tokens,
        "seconds": run.measured.seconds,
        "tokens_per_second": run.measured.tokens_per_second,
        **{name: {f"p{percent}": wait([run], each, percent) for percent in PERCENTS} for name, each in waits.items()},
    }
