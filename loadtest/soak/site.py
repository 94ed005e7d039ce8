"""The server that everything happens to, and what is written down of it."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from loadtest.local_server import Server, StreamedTranslation
from loadtest.soak.canaries import Canary, Tally
from loadtest.soak.stalls import Stalls
from loadtest.soak.supervisor import Supervisor
from loadtest.soak.wire import Answer

ENGINES: Final = 2
SLOTS: Final = 8
WAITING: Final = 16
CLIENT_TIMEOUT_SECONDS: Final = 3.0
_RESTART_SECONDS: Final = 30.0
"""Connections are refused for so long after a kill, at most."""


class Places:
    """The files of the server below one directory, which faults damage."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "server.log"
        self.model = directory / "model"
        self.other_model = directory / "other-model"
        """A model of the same shape, with other weights."""
        self.keys = directory / "keys.db"
        self.clock = directory / "clock"
        """libfaketime reads from it by how much the server's wall clock is set."""
        self.poisoned = directory / "poisoned"
        """Has a line for each engine that the poisonous request has killed."""


@dataclass
class Site:
    """A server under a supervisor, and everything that was seen."""

    supervisor: Supervisor
    client: httpx.AsyncClient
    rng: random.Random
    places: Places
    capacity: int
    """Sentences that running and waiting requests may have at once."""
    alone: Sequence[tuple[Canary, StreamedTranslation]]
    """Translation of each canary without faults."""
    tally: Tally
    stalls: Stalls = field(default_factory=lambda: Stalls(CLIENT_TIMEOUT_SECONDS))
    started: float = field(default_factory=time.monotonic)
    problems: list[str] = field(default_factory=list)
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    answered: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Outcome of every request that was answered to its end, and when, by its id."""
    replaced_seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from the loss of processes until there are as many ready engines as before."""
    answered_seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of a canary sent at the loss, since its admission: in a flood it is refused for a while."""
    refusal_seconds: list[float] = field(default_factory=list)
    deaths: int = 0
    """Engines that were killed or stopped while the HTTP process ran, and those of the poisonous request."""
    surgery: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One loss of processes at a time: the seconds of a recovery are those of one fault."""
    disk: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One slow disk at a time: two would leave the server no turn to write, for longer than it waits."""

    @property
    def server(self) -> Server:
        return self.supervisor.server

    @property
    def port(self) -> int:
        return self.server.port

    def count(self, fault: str, outcome: str) -> None:
        self.outcomes.setdefault(fault, Counter())[outcome] += 1

    def note(self, fault: str, request_id: str, answer: Answer, allowed: frozenset[str], since: float) -> None:
        """Write down the answer to a request sent at `since`; one that is not allowed is a problem."""
        outcome = answer.outcome
        if outcome == "cut" and (reason := self._reason_of_cut(since, since)):
            self.count(fault, reason)
            return
        self.count(fault, outcome)
        if outcome not in allowed:
            self.problems.append(f"{fault}: {outcome} (status {answer.status}) for {request_id}")
        elif outcome != "cut":
            self.answered[request_id] = outcome, time.monotonic()
        if answer.status in (429, 503) and "retry-after" not in answer.headers:
            self.problems.append(f"{fault}: status {answer.status} without Retry-After")

    async def all_of(self, fault: str, clients: Sequence[Awaitable[None]]) -> None:
        """Run clients side by side.

        A connection is no problem that a killed server has closed, or does not open, or that was closed since the soak
        itself has stalled.
        """

        async def one(client: Awaitable[None]) -> None:
            started = time.monotonic()
            try:
                await client
            except OSError:
                if not (reason := self._reason_of_cut(started - _RESTART_SECONDS, started)):
                    raise
                self.count(fault, reason)

        results = await asyncio.gather(*map(one, clients), return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                raise error

    def _reason_of_cut(self, killed_since: float, stalled_since: float) -> str | None:
        """Return why the server may have closed a connection without an answer; None if it had no reason."""
        if self.supervisor.was_down_since(killed_since):
            return "cut by a killed server"
        return "cut after a stall of the soak" if self.stalls.was_too_long_since(stalled_since) else None
