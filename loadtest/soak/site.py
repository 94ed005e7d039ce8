"""The server that everything happens to, and what is written down of it."""

import asyncio
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from loadtest.local_server import Server
from loadtest.soak.canaries import Tally
from loadtest.soak.supervisor import Supervisor

ENGINES: Final = 2
SLOTS: Final = 8
WAITING: Final = 16
CLIENT_TIMEOUT_SECONDS: Final = 10.0
CUT: Final = "cut"
"""The outcome of a request whose connection was closed before the end of its answer."""


class Plan(NamedTuple):
    """The schedule: rounds of faults, drawn from a shuffled deck of their names; and limits that break a promise.

    The first round has every fault once, however long that takes: what a fault leaves at its first time is no growth.
    """

    rounds: int
    round_seconds: float
    faults: Sequence[str]
    is_long: bool
    """True if the whole interval of a slope has to lie below the limit; else only one that lies above it is a leak. So
    that the HTTP process's memory has time to grow, it is killed only in the first quarter of the rounds then."""
    growth_percent: float
    """Growth of the HTTP process's memory, of the median engine's and of the fork server's, in an hour."""
    recovery_seconds: float
    """Seconds from an engine's loss until there are as many engines as before."""


class Places:
    """The files of the server below one directory, which faults damage."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "server.log"
        self.model = directory / "model"
        self.keys = directory / "keys.db"


@dataclass
class Site:
    """A server under a supervisor, and everything that was seen."""

    supervisor: Supervisor
    client: httpx.AsyncClient
    places: Places
    tally: Tally
    started: float = field(default_factory=time.monotonic)
    problems: list[str] = field(default_factory=list)
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    answered: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Outcome of every request that was answered to its end, and when, by its id."""
    replaced_seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from the loss of processes until there are as many ready engines as before."""
    deaths: int = 0
    """Engines that were killed or stopped while the HTTP process ran."""
    surgery: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One loss of processes at a time: the seconds of a recovery are those of one fault."""

    @property
    def rng(self) -> random.Random:
        return self.tally.rng

    @property
    def server(self) -> Server:
        return self.supervisor.server

    def count(self, fault: str, outcome: str) -> None:
        self.outcomes.setdefault(fault, Counter())[outcome] += 1

    def note(self, fault: str, request_id: str, outcome: str, allowed: Iterable[str], since: float) -> None:
        """Write down the outcome of a request sent at `since`; one that is not allowed is a problem.

        A connection that a killed server has closed is none.
        """
        if outcome == CUT and self.supervisor.was_down_since(since):
            self.count(fault, "cut by a killed server")
            return
        self.count(fault, outcome)
        if outcome not in allowed:
            self.problems.append(f"{fault}: {outcome} for {request_id}")
        elif outcome != CUT:
            self.answered[request_id] = outcome, time.monotonic()


def new_id() -> str:
    """Return an id for `X-Request-ID`, which the server's log then has, too."""
    return secrets.token_hex(8)
