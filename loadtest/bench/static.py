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


class StaticBatching:
    """A peer with `workers` threads, each of which translates one batch at a time."""

    def __init__(self, translate: Translate, workers: int) -> None:
        self._translate = translate
        self._workers = workers

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        """Run a closed loop: workers get equal shares of the concurrency as batches, in order of arrival.

        As with Dragoman, what comes when fewer than `concurrency` are in flight is finished, but not counted. Each
        request was submitted when its batch began.
        """
        queue, lock = iter(enumerate(requests)), threading.Lock()
        batches: list[Batch] = []

        def keep_in_flight(count: int) -> float:
            """Run batches of `count` requests; return the time at which fewer were left."""
            drained = None
            while drained is None:
                with lock:
                    taken = list(itertools.islice(queue, count))
                if len(taken) < count:
                    drained = time.perf_counter()
                if taken:
                    batch = [request for _, request in taken]
                    began = time.perf_counter()
                    self._translate(batch)
                    batches.append(Batch(taken[0][0], batch, began, time.perf_counter()))
            return drained

        workers = min(self._workers, concurrency)
        shares = [len(range(first, concurrency, workers)) for first in range(workers)]
        started = time.perf_counter()
        with ThreadPoolExecutor(workers) as executor:
            full_until = min(executor.map(keep_in_flight, shares))
        tokens = round(sum(batch.tokens_until(full_until) for batch in batches))
        in_order = sorted(batches, key=lambda batch: batch.first)
        answers = [Answer(batch.ended - batch.started) for batch in in_order for _ in batch.requests]
        return Measured(tokens, full_until - started, answers)
