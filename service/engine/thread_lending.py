"""An engine without work lends its threads to the others: a request alone is decoded by all cores of a server."""

import mmap
import time
from typing import Final

import torch

from service.engine.loop import Channel
from service.engine.messages import Command, Report

_TIME_BYTES: Final = 8  # of an int64


class ThreadLending:
    """Since when each engine of a model has no work, in memory that they share: to be made before they are forked."""

    def __init__(self, *, engines: int, threads: int) -> None:
        """All `engines` together have so many `threads`."""
        self._memory = mmap.mmap(-1, engines * _TIME_BYTES)
        self._idle_since = memoryview(self._memory).cast("q")
        self._threads = threads

    def join(self, engine: int, channel: Channel) -> "LendingChannel":
        """Have the int8 operators of this process, which is one of the engines, use what others lend."""
        self.lend(engine)  # the process before this one may have died at work
        torch.ops.dragoman.lend_threads(torch.frombuffer(self._memory, dtype=torch.int64), engine, self._threads)
        return LendingChannel(channel, self, engine)

    def lend(self, engine: int) -> None:
        """The engine has no work from now on."""
        self._idle_since[engine] = time.monotonic_ns()

    def take_back(self, engine: int) -> None:
        """The engine has work."""
        self._idle_since[engine] = 0


class LendingChannel:
    """An engine's channel to the HTTP process; the engine lends its threads while it waits for commands."""

    def __init__(self, channel: Channel, lending: ThreadLending, engine: int) -> None:
        self._channel = channel
        self._lending = lending
        self._engine = engine

    def receive(self, *, wait: bool) -> list[Command] | None:
        if not wait:
            return self._channel.receive(wait=False)
        self._lending.lend(self._engine)
        commands = self._channel.receive(wait=True)
        self._lending.take_back(self._engine)
        return commands

    def send(self, report: Report) -> None:
        self._channel.send(report)
