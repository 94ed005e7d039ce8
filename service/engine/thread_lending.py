"""An engine without work lends its threads to the others, which makes a request alone faster."""

import mmap
import os
import time
from typing import Final

import torch

from service.engine.loop import Channel
from service.engine.messages import Command, EngineOptions, Report
from service.process.hardware import has_cpu_limit, usable_cores

MOST_THREADS: Final = 8
"""Threads that one engine uses at most, if others lend theirs: more would wait for one another."""

_TIME_BYTES: Final = 8  # of an int64


class ThreadLending:
    """The time since when each engine of a model has no work, in memory that forks of this process share."""

    def __init__(self, *, engines: int, threads: int) -> None:
        """All `engines` together have so many `threads`; one of them uses `MOST_THREADS` at most."""
        self._memory = mmap.mmap(-1, engines * _TIME_BYTES)
        self._idle_since = memoryview(self._memory).cast("q")
        self.threads = min(threads, MOST_THREADS)
        self._parent = os.getpid()

    def join(self, engine: int, channel: Channel) -> "LendingChannel":
        """Have the int8 operators of this process, which is one of the engines, use what others lend."""
        self.lend(engine)  # the process before this one may have died at work
        self._borrow(engine, self.threads)
        return LendingChannel(channel, self, engine)

    def lend(self, engine: int) -> None:
        """Note that the engine has no work from now on."""
        self._idle_since[engine] = time.monotonic_ns()

    def take_back(self, engine: int) -> None:
        """Note that the engine has work."""
        self._idle_since[engine] = 0

    def leave_the_dead(self, engine: int) -> None:
        """Borrow nothing more once the parent is gone: the engines to come are another's forks, with other memory."""
        if self._parent != (parent := os.getppid()):
            self._parent = parent
            self._borrow(engine, 0)

    def _borrow(self, engine: int, threads: int) -> None:
        torch.ops.dragoman.lend_threads(torch.frombuffer(self._memory, dtype=torch.int64), engine, threads)


def lending_among(options: EngineOptions) -> ThreadLending | None:
    """Return the memory that the engines to be forked share; None if they lend nothing."""
    if not (options.lends_threads and options.forks):
        return None
    # Above a limit on processor time the system would stop all processes for a while, the HTTP process, too.
    cores = usable_cores() - 1 if has_cpu_limit() else usable_cores()
    return ThreadLending(engines=options.engines, threads=min(options.engines * options.threads, cores))


class LendingChannel:
    """An engine's channel to the HTTP process; the engine lends its threads while it waits for commands."""

    def __init__(self, channel: Channel, lending: ThreadLending, engine: int) -> None:
        self._channel = channel
        self._lending = lending
        self._engine = engine

    def receive(self, *, wait: bool) -> list[Command] | None:
        """Return as the channel does."""
        self._lending.leave_the_dead(self._engine)
        if not wait:
            return self._channel.receive(wait=False)
        self._lending.lend(self._engine)
        commands = self._channel.receive(wait=True)
        self._lending.take_back(self._engine)
        return commands

    def send(self, report: Report) -> None:
        self._channel.send(report)
