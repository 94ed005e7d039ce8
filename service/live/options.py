"""What a session is given: its client's choices, its place, and who measures it."""

from typing import NamedTuple

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


class LiveObserver:
    """The receiver of sessions' measurements; the methods of this base class do nothing."""

    def updated(self, seconds: float) -> None:
        """Observe the time from a change of the source to its results."""

    def overtaken(self) -> None: ...

    def opened(self, count: int) -> None:
        """Observe the number of sessions that there are now."""
