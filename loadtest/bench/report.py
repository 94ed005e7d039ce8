"""A comparison's figures: what they come to, and as JSON for programs."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, NamedTuple

from loadtest.bench.peers import Comparison, Measured, Memory
from loadtest.bench.roster import OURS

Loop = Literal["closed", "open"]

PERCENTS: Final = (50, 99)

Waits = Callable[[Measured], list[float]]
"""Seconds, of one run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One peer, once; `level` is the concurrency of a closed loop or the load of an open one."""

    peer: str
    loop: Loop
    level: float
    round: int
    measured: Measured
    requests_per_second: float | None = None
    """Rate of arrivals in an open loop."""


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


def select(runs: Sequence[Run], peer: str, loop: Loop, level: float) -> list[Run]:
    """Return the runs of a peer in this loop at this level, in the order of the rounds."""
    return [run for run in runs if (run.peer, run.loop, run.level) == (peer, loop, level)]


def speeds(runs: Sequence[Run], peer: str, loop: Loop, level: float) -> list[float]:
    """Return tokens per second, in the order of the rounds."""
    return [run.measured.tokens_per_second for run in select(runs, peer, loop, level)]


def speed_ratio(runs: Sequence[Run], peer: str, level: float) -> Spread:
    """Return the ratio of speeds in a closed loop; over 1: Dragoman is faster."""
    return ratio(speeds(runs, OURS, "closed", level), speeds(runs, peer, "closed", level))


def wait(runs: Sequence[Run], waits: Waits, percent: float) -> float | None:
    """Return a percentile of all requests of all runs; None without waits."""
    values = [seconds for run in runs for seconds in waits(run.measured)]
    return percentile(values, percent) if values else None


def first_token_ratio(runs: Sequence[Run], peer: str, load: float, percent: float) -> float:
    """Return the ratio of waits for the first token in an open loop; over 1: Dragoman is faster."""
    ours, theirs = (wait(select(runs, name, "open", load), first_tokens, percent) for name in (OURS, peer))
    assert ours is not None
    assert theirs is not None
    return theirs / ours


def as_json(comparison: Comparison, result: Result, machine: dict[str, object]) -> dict[str, object]:
    """Return JSON: `ratio[peer][concurrency]` is Dragoman's median over the peer's; `raw` has every run that counted.

    `first_token_ratio[peer][load]` is the other way round, a wait of theirs over ours: over 1 is better for Dragoman,
    always.
    """
    runs = result.runs
    others = [peer for peer in comparison.peers if peer != OURS]
    ratios = {peer: {str(level): speed_ratio(runs, peer, level) for level in comparison.concurrency} for peer in others}
    return asdict(comparison) | {
        "machine": machine,
        "ratio": {peer: {level: of.median for level, of in levels.items()} for peer, levels in ratios.items()},
        "ratio_range": {
            peer: {level: [of.lowest, of.highest] for level, of in levels.items()} for peer, levels in ratios.items()
        },
        "first_token_ratio": {
            peer: {
                str(load): {f"p{percent}": first_token_ratio(runs, peer, load, percent) for percent in PERCENTS}
                for load in comparison.loads
            }
            for peer in others
        },
        "memory_bytes": {peer: memory and memory._asdict() for peer, memory in result.memory.items()},
        "raw": [_raw(run) for run in runs],
    }


def _raw(run: Run) -> dict[str, object]:
    waits = {"time_to_first_token_seconds": first_tokens, "inter_token_seconds": inter_token}
    return {
        "peer": run.peer,
        "loop": run.loop,
        "level": run.level,
        "round": run.round,
        "requests": len(run.measured.answers),
        "requests_per_second": run.requests_per_second,
        "tokens": run.measured.tokens,
        "seconds": run.measured.seconds,
        "tokens_per_second": run.measured.tokens_per_second,
        **{name: {f"p{percent}": wait([run], each, percent) for percent in PERCENTS} for name, each in waits.items()},
    }
