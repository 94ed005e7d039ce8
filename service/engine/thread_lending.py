"""An engine without work lends its threads to the others, which makes a request alone faster."""

import mmap
import os
import time
from array import array
from typing import Final

import torch

from model.kernels import library
from service.engine.loop import Channel
from service.engine.messages import MOST_LENDERS, Command, EngineOptions, Report
from service.process.hardware import has_cpu_limit, usable_cores

MOST_THREADS: Final = 8
"""Threads that one engine uses at most, if others lend theirs: more would wait for one another."""

_NUMBER_BYTES: Final = 8  # of an int64
_IDLE: Final = 1
"""A time that is long ago on the monotonic clock."""


class Lenders:
    """The time since when each engine of any model has no work, in memory that all forks of this process share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, (1 + MOST_LENDERS) * _NUMBER_BYTES)
        numbers = memoryview(self._memory).cast("q")
        self._count, self._idle_since = numbers[:1], numbers[1:]
        self._idle_since[:] = array("q", [_IDLE]) * MOST_LENDERS

    @property
    def count(self) -> int:
        """One more than the highest number of an engine that has been here."""
        return self._count[0]

    def extend(self, end: int) -> None:
        """Have at least `end` engines. Two processes at once may lose the greater number: each calls this again."""
        self._count[0] = max(self.count, end)

    def lend(self, engine: int) -> None:
        """Note that the engine has no work from now on."""
        self._idle_since[engine] = time.monotonic_ns()

    def take_back(self, engine: int) -> None:
        """Note that the engine has work."""
        self._idle_since[engine] = 0

    def idle_since(self) -> torch.Tensor:
        """Return a view `[count]` of the times in nanoseconds; 0 while an engine works."""
        return torch.frombuffer(self._memory, dtype=torch.int64, count=self.count, offset=_NUMBER_BYTES)


class ThreadLending:
    """The lending among the engines of one model, which have the numbers from `first` on, and all others."""

    def __init__(self, lenders: Lenders, first: int, *, engines: int, threads: int) -> None:
        """All `engines` together have so many `threads`; one of them uses `MOST_THREADS` at most."""
        self.lenders = lenders
        self._first = first
        self._end = first + engines
        self.threads = min(threads, MOST_THREADS)
        self._parent = os.getpid()
        self._seen = 0

    def join(self, replica: int, channel: Channel) -> "LendingChannel":
        """Have the int8 operators of this process, which is one of the engines, use what others lend."""
        engine = self._first + replica
        self.lenders.lend(engine)  # the process before this one may have died at work
        self._borrow(engine)
        return LendingChannel(channel, self, engine)

    def look_around(self, engine: int) -> None:
        """Respect models that have come, and borrow nothing more once the parent is gone.

        The engines to come are then another process's forks, with other memory.
        """
        if self._parent != (parent := os.getppid()):
            self._parent = parent
            self.threads = 0
            self._borrow(engine)
        elif self._seen != self.lenders.count:
            self._borrow(engine)

    def _borrow(self, engine: int) -> None:
        self.lenders.extend(self._end)
        self._seen = self.lenders.count
        library.lend_threads(self.lenders.idle_since(), engine, self.threads)


def lending_among(options: EngineOptions, lenders: Lenders | None) -> ThreadLending | None:
    """Return the lending among the engines to be forked; None if they lend nothing."""
    if lenders is None or options.first_lender < 0:
        return None
    # Above a limit on processor time the system would stop all processes for a while, the HTTP process, too.
    cores = usable_cores() - 1 if has_cpu_limit() else usable_cores()
    threads = min(options.engines * options.threads, cores)
    return ThreadLending(lenders, options.first_lender, engines=options.engines, threads=threads)


class LendingChannel:
    """An engine's channel to the HTTP process; the engine lends its threads while it waits for commands."""

    def __init__(self, channel: Channel, lending: ThreadLending, engine: int) -> None:
        self._channel = channel
        self._lending = lending
        self._engine = engine

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Return as the channel does."""
        self._lending.look_around(self._engine)
        if not wait:
            return self._channel.receive(wait=False)
        self._lending.lenders.lend(self._engine)
        commands = self._channel.receive(wait=True)
        self._lending.lenders.take_back(self._engine)
        return commands

    def send(self, report: Report) -> None:
        self._channel.send(report)
