"""The table of sources: for each, how a release is found, and how its index is listed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from service.hub import argos, firefox, huggingface
from service.hub.names import HubName, SourceName
from service.hub.options import HubOptions
from service.hub.release import Listing, Release


class Source(NamedTuple):
    """One source of models."""

    release: Callable[[HubName, HubOptions], Release]
    """Finds the revision that a name stands for. Raises `HubError`."""
    listings: Callable[[HubOptions], Sequence[Listing]] | None
    """Lists all models; None for a source that has too many. Raises `HubError`."""
    works_offline: bool = False
    """True if it may find a release in a cache of its own."""


SOURCES: Final[Mapping[SourceName, Source]] = {
    "hf": Source(huggingface.release, None, works_offline=True),
    "argos": Source(argos.release, argos.listings),
    "firefox": Source(firefox.release, firefox.listings),
}
