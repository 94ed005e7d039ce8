"""The runs: every peer in a process of its own, taking turns on the same requests.

Every round gives each peer the same requests at each concurrency, one peer after the other, in the opposite order every
other round; the next round has new requests, and a first, shorter round is not counted.
"""

import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from loadtest.bench.peers import Comparison, WrongLength
from loadtest.bench.process import PeerProcess, peer_process
from loadtest.bench.report import Result, Run
from loadtest.bench.roster import OURS, prepare
from loadtest.bench.weights import TRAINED, sources
from loadtest.bench.workload import (
    MOST_TOKENS,
    Request,
    Workload,
    longest_requests,
    random_words,
    request_count,
    sentences,
)
from model.config import ModelConfig

_WARM_UP: Final = 0
"""Number of the round that is not counted."""

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
        return Result(runs, {name: peer.memory() for name, peer in peers.items()})


def run_count(comparison: Comparison) -> int:
    """Return the number of runs, and so of `progress` calls."""
    return len(comparison.peers) * len(comparison.concurrency) * (comparison.rounds + 1)


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
        requests = workload(count, number)
        for name in list(peers)[:: 1 if number % 2 else -1]:
            run = Run(name, level, number, peers[name].closed_loop(requests, level))
            progress(run)
            if number != _WARM_UP:
                runs.append(run)
    return runs
