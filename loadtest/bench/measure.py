"""The runs: every peer in a process of its own, taking turns on the same requests.

First the closed loops. Every round gives each peer the same requests at each concurrency, one peer after the other,
in the opposite order every other round; the next round has new requests, and a first, shorter round is not counted.
Then requests that come by themselves, to each peer at given shares of its own capacity: what it generated in a closed
loop at the highest concurrency.
"""

import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from loadtest.bench.peers import Comparison, Measured, WrongLength
from loadtest.bench.process import PeerProcess, peer_process
from loadtest.bench.report import Result, Run, speeds
from loadtest.bench.roster import OURS, prepare
from loadtest.bench.weights import TRAINED, sources
from loadtest.bench.workload import (
    MOST_TOKENS,
    Request,
    Workload,
    longest_requests,
    poisson_arrivals,
    random_words,
    request_count,
    sentences,
)
from model.config import ModelConfig

_WARM_UP: Final = 0
"""Number of the round that is not counted."""

_UNSETTLED: Final = 0.2
"""Share of the arrivals that find the system emptier than those who come later, and are not counted."""

Progress = Callable[[Run], None]


def measure(comparison: Comparison, config: ModelConfig, progress: Progress) -> Result:
    """Return all runs that count, in order; `progress` is called after every run."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        models = Path(directory)
        prepare(comparison.peers, None if comparison.shape == TRAINED else config, models)
        peers = {name: stack.enter_context(peer_process(name, comparison, models)) for name in comparison.peers}
        if comparison.device != "cpu":
            _record_graphs(comparison, config, peers[OURS])
        workload = _sentences(peers) if comparison.shape == TRAINED else random_words(config)
        runs = _closed_loops(comparison, workload, peers, progress)
        runs += _open_loops(comparison, workload, peers, _capacities(comparison, workload, runs), progress)
        return Result(runs, {name: peer.memory() for name, peer in peers.items()})


def run_count(comparison: Comparison) -> int:
    """Return the number of runs, and so of `progress` calls."""
    closed = len(comparison.concurrency) * (comparison.rounds + 1)
    return len(comparison.peers) * (closed + len(comparison.loads) * comparison.rounds)


def _record_graphs(comparison: Comparison, config: ModelConfig, ours: PeerProcess) -> None:
    """Let each engine meet every size of a batch and every length, so that no run that counts records a graph."""
    sizes = itertools.takewhile(
        lambda size: size < max(comparison.concurrency), (2**power for power in itertools.count())
    )
    for size in [*sizes, max(comparison.concurrency)]:
        count = min(size, comparison.slots) * comparison.replicas
        ours.closed_loop(longest_requests(count, config), count)


def _sentences(peers: dict[str, PeerProcess]) -> Workload:
    """Return the sentences that get equally many tokens from all peers: unequal work would not be comparable.

    Raises `WrongLength` if there are few.
    """
    every = sources()
    lengths = zip(*(peer.lengths(every) for peer in peers.values()), strict=True)
    agreed = [
        Request(source_ids, of_all[0])
        for source_ids, of_all in zip(every, lengths, strict=True)
        if len(set(of_all)) == 1 and of_all[0] < MOST_TOKENS
    ]
    if len(agreed) < len(every) / 2:
        raise WrongLength(f"only {len(agreed)} of {len(every)} sentences get equally many tokens from all engines")
    return sentences(agreed)


def _closed_loops(
    comparison: Comparison, workload: Workload, peers: dict[str, PeerProcess], progress: Progress
) -> list[Run]:
    runs = []
    for number, level in itertools.product(range(comparison.rounds + 1), comparison.concurrency):
        count = level if number == _WARM_UP else request_count(level, comparison.batches)
        requests = workload.make(count, number)
        for name in _order(peers, number):
            run = Run(name, "closed", level, number, peers[name].closed_loop(requests, level))
            progress(run)
            if number != _WARM_UP:
                runs.append(run)
    return runs


def _capacities(comparison: Comparison, workload: Workload, runs: list[Run]) -> dict[str, float]:
    """Return each peer's capacity in requests a second."""
    highest = max(comparison.concurrency)
    per_request = workload.mean_tokens
    return {name: statistics.median(speeds(runs, name, "closed", highest)) / per_request for name in comparison.peers}


def _open_loops(
    comparison: Comparison,
    workload: Workload,
    peers: dict[str, PeerProcess],
    capacities: dict[str, float],
    progress: Progress,
) -> list[Run]:
    runs = []
    for number, load in itertools.product(range(1, comparison.rounds + 1), comparison.loads):
        for name in _order(peers, number):
            rate = load * capacities[name]
            arrivals = poisson_arrivals(rate, comparison.arrival_seconds, workload, seed=number)
            measured = settled(peers[name].open_loop(arrivals))
            runs.append(Run(name, "open", load, number, measured, rate))
            progress(runs[-1])
    return runs


def _order(peers: Iterable[str], number: int) -> list[str]:
    return list(peers)[:: 1 if number % 2 else -1]


def settled(measured: Measured) -> Measured:
    """Return the figures without the first arrivals."""
    return replace(measured, answers=measured.answers[round(_UNSETTLED * len(measured.answers)) :])
