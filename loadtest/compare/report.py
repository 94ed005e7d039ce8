"""A comparison's figures as a table for people and as JSON for programs."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from loadtest.compare.peers import Measured
from loadtest.compare.summary import percentile, ratio, spread
from loadtest.compare.workload import Shape

OURS: Final = "dragoman"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was asked for; `concurrency` are the numbers of requests in flight."""

    shape: Shape
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
    """Medians, with the lowest and the highest round."""
    table = Table("in flight", "engine", "tokens/s", "ratio", "first token", show_edge=False)
    table.title = f"Shape {comparison.shape}, fp32, {comparison.threads} threads"
    table.caption = "ratio: Dragoman's tokens/s over the engine's; first token: p50 / p99, ms"
    for level in comparison.concurrency:
        for peer in _peers(runs):
            theirs = speeds(runs, peer, level)
            ours_over_theirs = "" if peer == OURS else ratio(speeds(runs, OURS, level), theirs).text(2)
            waits = first_token_seconds(runs, peer, level)
            latency = f"{percentile(waits, 50) * 1000:.0f} / {percentile(waits, 99) * 1000:.0f}" if waits else ""
            table.add_row(str(level), peer, spread(theirs).text(0), ours_over_theirs, latency)
    return table


def as_json(comparison: Comparison, runs: Sequence[Run]) -> dict[str, object]:
    """`ratio[peer][concurrency]` is Dragoman's median over the peer's; `raw` has every run that counted.

    Peers that do not stream have no time to first token.
    """
    ratios: dict[str, dict[str, float]] = {}
    ratio_ranges: dict[str, dict[str, list[float]]] = {}
    tokens_per_second: dict[str, dict[str, object]] = {}
    first_tokens: dict[str, dict[str, dict[str, float]]] = {}
    for peer, level in itertools.product(_peers(runs), comparison.concurrency):
        theirs = speeds(runs, peer, level)
        tokens_per_second.setdefault(peer, {})[str(level)] = spread(theirs)._asdict()
        if peer != OURS:
            ours_over_theirs = ratio(speeds(runs, OURS, level), theirs)
            ratios.setdefault(peer, {})[str(level)] = ours_over_theirs.median
            ratio_ranges.setdefault(peer, {})[str(level)] = [ours_over_theirs.lowest, ours_over_theirs.highest]
        if waits := first_token_seconds(runs, peer, level):
            percentiles = {f"p{percent}": percentile(waits, percent) for percent in (50, 99)}
            first_tokens.setdefault(peer, {})[str(level)] = percentiles
    return {
        "shape": comparison.shape,
        "mode": "fp32",
        "threads": comparison.threads,
        "rounds": comparison.rounds,
        "ratio": ratios,
        "ratio_range": ratio_ranges,
        "tokens_per_second": tokens_per_second,
        "time_to_first_token_seconds": first_tokens,
        "raw": [_raw(run) for run in runs],
    }


def _raw(run: Run) -> dict[str, object]:
    return {
        "peer": run.peer,
        "concurrency": run.concurrency,
        "round": run.round,
        "tokens": run.measured.tokens,
        "seconds": run.measured.seconds,
        "tokens_per_second": run.measured.tokens_per_second,
    }
