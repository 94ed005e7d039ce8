"""The seam between the comparison and whatever it measures."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from loadtest.compare.workload import Request
from model.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Measured:
    """Tokens that requests asked for and got while all of the concurrency was in use, and the seconds that took.

    `first_token_seconds` has one entry a request, from submission to first token; empty for a peer
    that does not stream.
    """

    tokens: int
    seconds: float
    first_token_seconds: list[float] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


class Peer(Protocol):
    """One engine, loaded and idle between runs."""

    def run(self, requests: Sequence[Request], concurrency: int) -> Measured:
        """Generate every request's tokens, `concurrency` requests at a time, and say how long it took.

        Raises `WrongLength` when a request got more or fewer tokens than it asked for.
        """
        ...


PeerFactory = Callable[[ModelConfig, int], AbstractContextManager[Peer]]
"""Shape and number of threads -> the peer, ended when the context is left."""


class WrongLength(Exception):
    """Engines did unequal work, so their figures must not be compared."""
