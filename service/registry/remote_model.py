"""A public model that is offered and not loaded yet: its first request fetches it. Knows no other model."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from model.checkpoint_config import Direction


class FetchProgress(NamedTuple):
    """The progress of a fetch: the step, as `downloading`, and how much of the download is here."""

    step: str
    percent: int | None
    """None where it is not known."""


@dataclass(frozen=True, eq=False)
class RemoteModel:
    """A model that is not loaded; its directions are those of its name or its index."""

    name: str
    directions: Sequence[Direction]
    is_here: bool
    """True if it needs no download."""
    fetch: Callable[[], Awaitable[None]]
    """Downloads and loads it, or waits for another request that does. Raises `NotReady` with the reason."""
    progress: Callable[[], FetchProgress]
