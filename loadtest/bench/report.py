"""A comparison's figures: what they come to, as tables for people and as JSON for programs."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

import numpy as np
from rich.table import Table

from loadtest.bench.peers import Comparison, Measured
from loadtest.bench.roster import OURS

_PERCENTS: Final = (50, 99)


@dataclass(frozen=True, slots=True)
class Run:
    """One peer, once, with this concurrency."""

    peer: str
    concurrency: int
    round: int
    measured: Measured


@dataclass(frozen=True, slots=True)
class Result:
    """Runs in the order in which they were made, and each peer's bytes of memory after them."""

    runs: list[Run]
    memory: dict[str, int]

    def select(self, peer: str, concurrency: int) -> list[Run]:
        """Return the runs of a peer with this concurrency, in the order of the rounds."""
        return [run for run in self.runs if (run.peer, run.concurrency) == (peer, concurrency)]

    def speeds(self, peer: str, concurrency: int) -> list[float]:
        """Return tokens per second, in the order of the rounds."""
        return [run.measured.tokens_per_second for run in self.select(peer, concurrency)]

    def speed_ratio(self, peer: str, concurrency: int) -> "Spread":
        """Return the ratio of speeds; over 1: Dragoman is faster."""
        return ratio(self.speeds(OURS, concurrency), self.speeds(peer, concurrency))


class Spread(NamedTuple):
    """Median and range of the rounds of one measurement."""

    median: float
    lowest: float
    highest: float

    def text(self, digits: int) -> str:
        """Return `median (lowest-highest)` with so many digits after the point."""
        return f"{self.median:.{digits}f} ({self.lowest:.{digits}f}-{self.highest:.{digits}f})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the ratio of our medians to theirs, with the lowest and highest ratio of any round.

    Both are in the order of the rounds; figures of one round were taken one after the other, so they
    share whatever else the machine was doing.
    """
    rounds = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Spread(statistics.median(ours) / statistics.median(theirs), min(rounds), max(rounds))


def _first_tokens(measured: Measured) -> list[float]:
    return [answer.first_token_seconds for answer in measured.answers]


def _inter_token(measured: Measured) -> list[float]:
    """Return the waits for later tokens; none for a peer that returns a whole batch at once."""
    return [gap for answer in measured.answers for gap in answer.gaps]


def _waits(runs: Sequence[Run], waits: Callable[[Measured], list[float]]) -> dict[str, float | None]:
    """Return percentiles in seconds of all requests of all runs; None without waits."""
    values = [seconds for run in runs for seconds in waits(run.measured)]
    return {f"p{percent}": float(np.percentile(values, percent)) if values else None for percent in _PERCENTS}


def as_json(comparison: Comparison, result: Result, machine: dict[str, object]) -> dict[str, object]:
    """Return JSON: `ratio[peer][concurrency]` is Dragoman's median over the peer's; `raw` has every run that counts."""
    ratios = {
        peer: {str(level): result.speed_ratio(peer, level) for level in comparison.concurrency}
        for peer in comparison.peers
        if peer != OURS
    }
    return asdict(comparison) | {
        "machine": machine,
        "ratio": {peer: {level: of.median for level, of in levels.items()} for peer, levels in ratios.items()},
        "ratio_range": {peer: {level: of[1:] for level, of in levels.items()} for peer, levels in ratios.items()},
        "memory_bytes": result.memory,
        "raw": [_raw(run) for run in result.runs],
    }


def _raw(run: Run) -> dict[str, object]:
    return {
        "peer": run.peer,
        "concurrency": run.concurrency,
        "round": run.round,
        "requests": len(run.measured.answers),
        "tokens": run.measured.tokens,
        "seconds": run.measured.seconds,
        "tokens_per_second": run.measured.tokens_per_second,
        "time_to_first_token_seconds": _waits([run], _first_tokens),
        "inter_token_seconds": _waits([run], _inter_token),
    }


def tables(comparison: Comparison, result: Result) -> Iterator[Table]:
    """Yield the tables; each fits a terminal of 80 columns."""
    speed = Table("in flight", "engine", "tokens/s", "ratio", show_edge=False)
    where = "" if comparison.device == "cpu" else f" on {comparison.device}"
    speed.title = f"Shape {comparison.shape}, Dragoman in {comparison.mode}{where}, cores each: {comparison.cores}"
    speed.caption = "medians and range of the rounds; ratio: Dragoman's tokens/s over the engine's"
    waiting = Table("in flight", "engine", "first token, ms", "between tokens, ms", show_edge=False)
    waiting.title = "p50 / p99"
    waiting.caption = "engines that do not stream give their first token with their last"
    for level in comparison.concurrency:
        for peer in comparison.peers:
            speeds, runs = result.speeds(peer, level), result.select(peer, level)
            spread = Spread(statistics.median(speeds), min(speeds), max(speeds))
            over = "" if peer == OURS else result.speed_ratio(peer, level).text(2)
            speed.add_row(str(level), peer, spread.text(0), over)
            waiting.add_row(str(level), peer, _milliseconds(runs, _first_tokens), _milliseconds(runs, _inter_token))
    memory = Table("engine", "memory at the end, MB", show_edge=False)
    memory.caption = "all processes of each; what they share counts once"
    for peer in comparison.peers:
        memory.add_row(peer, f"{result.memory[peer] / 1e6:.0f}")
    yield from (speed, waiting, memory)


def _milliseconds(runs: Sequence[Run], waits: Callable[[Measured], list[float]]) -> str:
    return " / ".join(f"{seconds * 1000:.1f}" for seconds in _waits(runs, waits).values() if seconds is not None)
