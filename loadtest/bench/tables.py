"""A comparison's figures as tables for people."""

from collections.abc import Iterator

from rich.table import Table

from loadtest.bench.peers import Comparison
from loadtest.bench.report import (
    PERCENTS,
    Result,
    Run,
    Waits,
    first_tokens,
    inter_token,
    select,
    speed_ratio,
    speeds,
    spread,
    wait,
)
from loadtest.bench.roster import OURS


def tables(comparison: Comparison, result: Result) -> Iterator[Table]:
    """Yield the tables; each fits a terminal of 80 columns."""
    yield _speed(comparison, result.runs)
    yield _waiting(comparison, result.runs)
    yield _memory(comparison, result)


def _speed(comparison: Comparison, runs: list[Run]) -> Table:
    """Return medians, with the lowest and the highest round."""
    table = Table("in flight", "engine", "tokens/s", "ratio", show_edge=False)
    where = "" if comparison.device == "cpu" else f" on {comparison.device}"
    table.title = f"Shape {comparison.shape}, Dragoman in {comparison.mode}{where}, cores each: {comparison.cores}"
    table.caption = "ratio: Dragoman's tokens/s over the engine's"
    for level in comparison.concurrency:
        for peer in comparison.peers:
            over = "" if peer == OURS else speed_ratio(runs, peer, level).text(2)
            table.add_row(str(level), peer, spread(speeds(runs, peer, level)).text(0), over)
    return table


def _waiting(comparison: Comparison, runs: list[Run]) -> Table:
    table = Table("in flight", "engine", "first token, ms", "between tokens, ms", show_edge=False)
    table.title = "p50 / p99"
    table.caption = "engines that do not stream give their first token with their last"
    for level in comparison.concurrency:
        for peer in comparison.peers:
            chosen = select(runs, peer, level)
            table.add_row(str(level), peer, _milliseconds(chosen, first_tokens), _milliseconds(chosen, inter_token))
    return table


def _milliseconds(runs: list[Run], waits: Waits) -> str:
    figures = [wait(runs, waits, percent) for percent in PERCENTS]
    return " / ".join(f"{seconds * 1000:.1f}" for seconds in figures if seconds is not None)


def _memory(comparison: Comparison, result: Result) -> Table:
    table = Table("engine", "peak memory, MB", "at the end", show_edge=False)
    table.caption = "all processes of each; what they share counts in each of them in the peak, and once at the end"
    for peer in comparison.peers:
        memory = result.memory[peer]
        table.add_row(peer, *(["unknown"] if memory is None else [f"{size / 1e6:.0f}" for size in memory]))
    return table
