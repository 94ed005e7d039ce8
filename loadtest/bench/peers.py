"""The seam between the comparison and whatever it measures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from loadtest.bench.workload import Request


@dataclass(frozen=True, slots=True)
class Answer:
    """The times of one request at the client: the wait for the first token, and the gaps between later tokens.

    `gaps` is empty for a peer that gives a whole batch at once, whose first token comes with the last.
    """

    first_token_seconds: float
    gaps: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Measured:
    """Tokens that were requested and generated within `seconds`, and the answers in the order of the requests.

    Tokens and seconds are those while all of the concurrency was in use.
    """

    tokens: int
    seconds: float
    answers: list[Answer]

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


class Peer(Protocol):
    """One engine, loaded and idle between runs."""

    def closed_loop(self, requests: Sequence[Request], concurrency: int) -> Measured:
        """Generate every request's tokens, always `concurrency` requests in flight; waits count from submission.

        Raises `WrongLength` when engines did unequal work.
        """
        ...

    def lengths(self, sources: Sequence[list[int]]) -> list[int]:
        """Return how many tokens each source gets, `MOST_TOKENS` at most, if no weights are made to end it."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """Parameters of a comparison.

    `concurrency` are the numbers of requests in flight, `batches` how many times as many a run has.
    """

    shape: str
    mode: str
    """Mode of Dragoman's engine."""
    peers: list[str]
    cores: int
    replicas: int
    """Number of Dragoman's engines, which share the cores."""
    rounds: int
    concurrency: list[int]
    batches: int
    device: str = "cpu"
    """Device of Dragoman's engine and of transformers; CTranslate2 has the cores."""
    slots: int = 64
    """Slots of each of Dragoman's engines."""
    cpu_variant: str = "auto"
    """Instruction set of Dragoman's C++ operators and of CTranslate2."""
    lends_threads: bool = True
    """Dragoman's engines without work lend their threads to the others."""


class WrongLength(Exception):
    """Engines did unequal work, so their figures must not be compared."""
