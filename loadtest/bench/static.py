"""Static batching around any engine that translates one batch at a time, as a server without a scheduler does it.

What is in a batch stays until all of it is done, what comes meanwhile waits, and nothing is seen before the end: the
time to a request's first token is the time until its batch returns.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from loadtest.bench.peers import Answer, Measured
from loadtest.bench.workload import Request

Translate = Callable[[Sequence[Request]], None]
"""Translate one batch, and check that every request got as many tokens as it requested."""


class StaticBatching:
    """A peer with `workers` threads, each of which translates one batch at a time."""

    def __init__(self, translate: Translate, workers: int) -> None:
        self._translate = translate
        self._workers = workers

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        """Run a closed loop: workers get equal shares of the concurrency as batches, in order of arrival.

        As with Dragoman, what comes when fewer than `concurrency` are in flight is finished, but not counted.
        """
        workers = min(self._workers, concurrency)
        shares = [len(range(first, concurrency, workers)) for first in range(workers)]
        lanes = Lanes(self._translate, requests)
        started = time.perf_counter()
        with ThreadPoolExecutor(workers) as executor:
            full_until = min(executor.map(lanes.keep_in_flight, shares))
        return Measured(lanes.tokens_until(full_until), full_until - started, lanes.answers())


class Batch(NamedTuple):
    """The requests from number `first` on, translated from `started` to `ended`."""

    first: int
    requests: Sequence[Request]
    started: float
    ended: float

    def tokens_until(self, moment: float) -> float:
        """Return the tokens until `moment`, in proportion to time, since a batch shows nothing before its end."""
        share = (moment - self.started) / (self.ended - self.started)
        return sum(request.new_tokens for request in self.requests) * min(max(share, 0.0), 1.0)


class Lanes:
    """Threads that take requests from one queue, each its share as one batch."""

    def __init__(self, translate: Translate, requests: Sequence[Request]) -> None:
        self._translate = translate
        self._queue = iter(enumerate(requests))
        self._lock = threading.Lock()
        self._batches: list[Batch] = []

    def keep_in_flight(self, count: int) -> float:
        """Run batches of `count` requests; return the time at which fewer were left."""
        while len(taken := self._take(count)) == count:
            self._run(taken)
        drained = time.perf_counter()
        if taken:
            self._run(taken)
        return drained

    def tokens_until(self, moment: float) -> int:
        """Return the tokens of all batches until `moment`; call it when they have ended."""
        return round(sum(batch.tokens_until(moment) for batch in self._batches))

    def answers(self) -> list[Answer]:
        """Return the answers in the order of the requests; each request was submitted when its batch began."""
        batches = sorted(self._batches, key=lambda batch: batch.first)
        return [Answer(batch.ended - batch.started) for batch in batches for _ in batch.requests]

    def _take(self, count: int) -> list[tuple[int, Request]]:
        with self._lock:
            return list(itertools.islice(self._queue, count))

    def _run(self, taken: Sequence[tuple[int, Request]]) -> None:
        requests = [request for _, request in taken]
        started = time.perf_counter()
        self._translate(requests)
        self._batches.append(Batch(taken[0][0], requests, started, time.perf_counter()))
