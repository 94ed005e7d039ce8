"""Static batching around any engine that translates one batch at a time, as a server without a scheduler does it.

What is in a batch stays until all of it is done, what comes meanwhile waits, and nothing is seen before the end: the
time to a request's first token is the time until its batch returns.
"""

import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from loadtest.bench.peers import Answer, Measured
from loadtest.bench.workload import Arrival, Request

Translate = Callable[[Sequence[Request]], None]
"""Translate one batch, and check that every request got as many tokens as it requested."""

LARGEST_BATCH: Final = 64
"""The number of slots of Dragoman's engine."""


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

    def open_loop(self, arrivals: Sequence[Arrival]) -> Measured:
        """Run an open loop: a free worker takes its share of the waiting requests, up to `LARGEST_BATCH`."""
        room = WaitingRoom(LARGEST_BATCH)
        answers: dict[int, Answer] = {}
        started = time.perf_counter()

        def work() -> None:
            while numbers := room.take():
                self._translate([arrivals[number].request for number in numbers])
                ended = time.perf_counter() - started
                answers.update({number: Answer(ended - arrivals[number].at) for number in numbers})

        with ThreadPoolExecutor(self._workers) as executor:
            workers = [executor.submit(work) for _ in range(self._workers)]
            for number, arrival in enumerate(arrivals):
                time.sleep(max(0.0, started + arrival.at - time.perf_counter()))
                room.put(number)
            room.close()
        for worker in workers:
            worker.result()
        seconds = time.perf_counter() - started
        tokens = sum(arrival.request.new_tokens for arrival in arrivals)
        return Measured(tokens, seconds, [answers[number] for number in range(len(arrivals))])


class WaitingRoom:
    """A queue of request numbers that wait for a worker."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.idle = 0
        """Workers that are here to take something."""
        self._waiting: deque[int] = deque()
        self._open = True
        self._changed = threading.Condition()

    def put(self, number: int) -> None:
        with self._changed:
            self._waiting.append(number)
            self._changed.notify()

    def close(self) -> None:
        """Close the queue: no more requests will come."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def take(self) -> list[int]:
        """Take at least one and at most `most` numbers, in order of arrival; none when the queue is closed and empty.

        What waits is shared out equally among the workers that are idle, as in a closed loop.
        """
        with self._changed:
            self.idle += 1
            self._changed.wait_for(lambda: self._waiting or not self._open)
            share = math.ceil(len(self._waiting) / self.idle)
            self.idle -= 1
            return [self._waiting.popleft() for _ in range(min(self._most, share))]


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
