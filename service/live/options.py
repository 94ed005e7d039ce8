"""What a session is given: its client's choices, its place, its account, and who measures it."""

from typing import NamedTuple, Protocol

from service.live.policies import Policy


class Options(NamedTuple):
    """The choices of a session's client."""

    policy: Policy
    language: str
    """The language of the source."""
    revises: bool = False


class Start(NamedTuple):
    """The place from which another server's session goes on: `committed` is the number of committed characters."""

    source_start: int = 0
    segment: int = 0
    committed: int = 0


class Account(Protocol):
    """Counts the characters of the source for the session's caller."""

    async def reach(self, end: int) -> None:
        """Count the source up to a position, each character once. Raises `ServiceError`."""
        ...

    async def close(self) -> None:
        """Settle the account at the end of the session."""
        ...


class LiveObserver:
    """The receiver of sessions' measurements; the methods of this base class do nothing."""

    def updated(self, seconds: float) -> None:
        """Observe the time from a change of the source to its results."""

    def overtaken(self) -> None: ...

    def opened(self, count: int) -> None:
        """Observe the number of sessions that there are now."""
