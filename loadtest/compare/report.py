"""A comparison's figures as a table for people and as JSON for programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from loadtest.compare.peers import Measured
from loadtest.compare.summary import Spread, percentile, ratio, spread

OURS: Final = "dragoman"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was asked for; `concurrency` are the numbers of requests in flight."""

    shape: str
    threads: int
    rounds: int
    concurrency: list[int]


@dataclass(frozen=True, slots=True)
class Run:
    """One peer, once, at one concurrency."""

    peer: str
    concurrency: int
    round: int
    measured: Measured


def speeds(runs: Sequence[Run], peer: str, concurrency: int) -> list[float]:
    """Tokens per second, in the order of the rounds."""
    return [run.measured.tokens_per_second for run in _select(runs, peer, concurrency)]


def first_token_seconds(runs: Sequence[Run], peer: str, concurrency: int) -> list[float]:
    """Of every request of every round."""
    return [seconds for run in _select(runs, peer, concurrency) for seconds in run.measured.first_token_seconds]


def _select(runs: Sequence[Run], peer: str, concurrency: int) -> list[Run]:
    return [run for run in runs if (run.peer, run.concurrency) == (peer, concurrency)]


def _peers(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.peer for run in runs))


def as_table(comparison: Comparison, runs: Sequence[Run]) -> Table:
    """Medians with lowest and highest round, and how many times as fast Dragoman is."""
    title = f"Generated tokens/s: shape {comparison.shape}, fp32, {comparison.threads} threads"
    table = Table("in flight", "engine", "tokens/s", "Dragoman is", "first token p50 / p99", title=title)
    for level in comparison.concurrency:
        for peer in _peers(runs):
            theirs = speeds(runs, peer, level)
            times = "" if peer == OURS else _range(ratio(speeds(runs, OURS, level), theirs), 2, " times as fast")
            waits = first_token_seconds(runs, peer, level)
            latency = f"{percentile(waits, 50) * 1000:.0f} / {percentile(waits, 99) * 1000:.0f} ms" if waits else ""
            table.add_row(str(level), peer, _range(spread(theirs), 0), times, latency)
    return table


def _range(of: Spread, digits: int, unit: str = "") -> str:
    return f"{of.median:.{digits}f}{unit} ({of.lowest:.{digits}f}-{of.highest:.{digits}f})"


def as_json(comparison: Comparison, runs: Sequence[Run]) -> dict[str, object]:
    """`ratio[peer][concurrency]` is Dragoman's median over the peer's; `raw` has every run that counted."""
    levels = comparison.concurrency
    peers = _peers(runs)
    ratios = {
        peer: {str(level): ratio(speeds(runs, OURS, level), speeds(runs, peer, level)) for level in levels}
        for peer in peers
        if peer != OURS
    }
    return {
        "shape": comparison.shape,
        "mode": "fp32",
        "threads": comparison.threads,
        "rounds": comparison.rounds,
        "ratio": {peer: {level: each.median for level, each in row.items()} for peer, row in ratios.items()},
        "ratio_range": {
            peer: {level: [each.lowest, each.highest] for level, each in row.items()} for peer, row in ratios.items()
        },
        "tokens_per_second": {
            peer: {str(level): spread(speeds(runs, peer, level))._asdict() for level in levels} for peer in peers
        },
        "time_to_first_token_seconds": {
            str(level): {f"p{percent}": percentile(waits, percent) for percent in (50, 99)}
            for level in levels
            if (waits := first_token_seconds(runs, OURS, level))
        },
        "raw": [
            {
                "peer": run.peer,
                "concurrency": run.concurrency,
                "round": run.round,
                "tokens": run.measured.tokens,
                "seconds": run.measured.seconds,
                "tokens_per_second": run.measured.tokens_per_second,
            }
            for run in runs
        ],
    }
