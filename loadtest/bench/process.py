"""A peer in a process of its own, so that its memory is its own, and so are its locks and its event loop."""

import itertools
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar, cast

from loadtest.bench.peers import Job, Measured, Memory, Peer
from loadtest.bench.roster import ENTRIES
from loadtest.bench.workload import Arrival, Request

_Result = TypeVar("_Result")


class PeerDied(Exception):
    """The process of a peer ended without an answer."""


class PeerProcess:
    """A peer that is elsewhere; use `peer_process`."""

    def __init__(self, name: str, connection: Connection) -> None:
        self._name = name
        self._connection = connection

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        return self._ask(partial(_closed_loop, requests, concurrency))

    def open_loop(self, arrivals: Sequence[Arrival]) -> Measured:
        return self._ask(partial(_open_loop, arrivals))

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        return self._ask(partial(_lengths, sources))

    def memory(self) -> Memory | None:
        """Return the memory of all the peer's processes together; None if the system does not report it."""
        return self._ask(_memory)

    def wait_until_loaded(self) -> None:
        self._receive()

    def _ask(self, question: Callable[[Peer], _Result]) -> _Result:
        try:
            self._connection.send(question)
        except BrokenPipeError:
            raise self._died() from None
        return cast(_Result, self._receive())

    def _receive(self) -> object:
        try:
            answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _died(self) -> PeerDied:
        return PeerDied(f"the process of {self._name} ended without an answer")


@contextmanager
def peer_process(name: str, job: Job) -> Iterator[PeerProcess]:
    """Start the process of a peer on the first `job.cores` cores; yield it loaded, and end it with the context."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, name, job))
    process.start()
    # Or their end of the pipe would stay open when they are gone.
    theirs.close()
    try:
        peer = PeerProcess(name, ours)
        peer.wait_until_loaded()
        yield peer
    except BaseException:
        # Whatever it is doing, nobody will read the result.
        process.terminate()
        raise
    finally:
        # Closed means: end.
        ours.close()
        process.join()


def _serve(connection: Connection, name: str, job: Job) -> None:
    """Run the process: open the peer, and answer questions until the pipe is closed."""
    # Ctrl-C goes to everybody; whoever asks the questions ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.cores])
    entry = ENTRIES[name]
    if entry.without_torch:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        with entry.open(job) as peer:
            connection.send(None)
            while True:
                try:
                    question = connection.recv()
                except EOFError:
                    return
                try:
                    answer = question(peer)
                except Exception as error:
                    answer = error
                connection.send(answer)
    except Exception as error:
        connection.send(error)


def _closed_loop(requests: Sequence[Request], concurrency: int, peer: Peer) -> Measured:
    return peer.closed_loop(requests, concurrency)


def _open_loop(arrivals: Sequence[Arrival], peer: Peer) -> Measured:
    return peer.open_loop(arrivals)


def _lengths(sources: Sequence[list[int]], peer: Peer) -> list[int]:
    return peer.lengths(sources)


def _memory(_: Peer) -> Memory | None:
    return memory(os.getpid())


def memory(pid: int) -> Memory | None:
    """Return the memory of a process and all its descendants together."""
    try:
        own = _memory_of(*(Path(f"/proc/{pid}/{name}").read_text() for name in ("status", "smaps_rollup")))
        children = [each.read_text().split() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return None
    for child in itertools.chain(*children):
        if (of_child := memory(int(child))) is not None:
            own = Memory(own.peak + of_child.peak, own.resident + of_child.resident)
    return own


def _memory_of(status: str, maps: str) -> Memory:
    peak, resident = (
        re.search(rf"^{name}:\s*([0-9]+) kB$", text, re.MULTILINE) for name, text in (("VmHWM", status), ("Pss", maps))
    )
    assert peak is not None
    return Memory(1024 * int(peak[1]), 1024 * int(resident[1]) if resident else 0)
