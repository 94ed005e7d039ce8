"""An engine without work lends its threads to the others: a request alone is decoded by all cores of a server."""

import mmap

import torch

from service.engine.loop import Channel
from service.engine.messages import Command, Report


class ThreadLending:
    """Which engines of a model have work, in memory that they share: to be made before they are forked."""

    def __init__(self, *, engines: int, threads: int) -> None:
        """All `engines` together have so many `threads`."""
        self._working = mmap.mmap(-1, engines)
        self._threads = threads

    def join(self, engine: int, channel: Channel) -> "LendingChannel":
        """Have the int8 operators of this process, which is one of the engines, use what others lend."""
        self.mark(engine, working=False)  # the process before this one may have died at work
        torch.ops.dragoman.lend_threads(torch.frombuffer(self._working, dtype=torch.uint8), engine, self._threads)
        return LendingChannel(channel, self, engine)

    def mark(self, engine: int, *, working: bool) -> None:
        self._working[engine] = working


class LendingChannel:
    """An engine's channel to the HTTP process; the engine lends its threads while it waits for commands."""

    def __init__(self, channel: Channel, lending: ThreadLending, engine: int) -> None:
        self._channel = channel
        self._lending = lending
        self._engine = engine

    def receive(self, *, wait: bool) -> list[Command] | None:
        if not wait:
            return self._channel.receive(wait=False)
        self._lending.mark(self._engine, working=False)
        commands = self._channel.receive(wait=True)
        self._lending.mark(self._engine, working=True)
        return commands

    def send(self, report: Report) -> None:
        self._channel.send(report)
