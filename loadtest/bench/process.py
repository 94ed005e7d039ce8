"""A peer in a process of its own, so that its memory is its own, and so are its locks and its event loop."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import psutil

from loadtest.bench.peers import Comparison, Measured, Peer
from loadtest.bench.roster import ENTRIES
from loadtest.bench.workload import Request

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class PeerDied(Exception):
    """The process of a peer ended without an answer."""


class PeerProcess:
    """A peer that is elsewhere; use `peer_process`."""

    def __init__(self, name: str, executor: ProcessPoolExecutor) -> None:
        self._name = name
        self._executor = executor

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        return cast(Measured, self.ask(_call, "closed_loop", requests, concurrency))

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        return cast(list[int], self.ask(_call, "lengths", sources))

    def memory(self) -> int:
        """Return the bytes of memory of all the peer's processes together."""
        return self.ask(memory)

    def ask(
        self, function: Callable[_Arguments, _Result], *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        """Call a function in the process. Raises what it raises, and `PeerDied`."""
        try:
            return self._executor.submit(function, *arguments, **named).result()
        except BrokenProcessPool:
            raise PeerDied(f"the process of {self._name} ended without an answer") from None


@contextmanager
def peer_process(name: str, comparison: Comparison, models: Path) -> Iterator[PeerProcess]:
    """Start the process of a peer on the first `comparison.cores` cores; yield it loaded, end it with the context."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        peer = PeerProcess(name, executor)
        try:
            peer.ask(_open, name, comparison, models)
            yield peer
        finally:
            with suppress(PeerDied):
                peer.ask(_close)


_opened = ExitStack()
_peers: list[Peer] = []
"""The peer of this process, if it has one, and `_opened` closes it."""


def _open(name: str, comparison: Comparison, models: Path) -> None:
    # Ctrl-C goes to everybody; whoever asks ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: comparison.cores])
    entry = ENTRIES[name]
    if entry.without_torch:
        sys.modules["torch"] = None  # type: ignore[assignment]
    _peers.append(_opened.enter_context(entry.open(comparison, models)))


def _close() -> None:
    _opened.close()


def _call(name: str, *arguments: object) -> object:
    """Call a method of the peer."""
    return getattr(_peers[0], name)(*arguments)


def memory(pid: int | None = None) -> int:
    """Return the bytes of a process, by default of this one, and all its descendants; what they share counts once."""
    process = psutil.Process(pid)
    total = 0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used = each.memory_full_info()
            total += getattr(used, "pss", used.rss)
    return total
