"""The common types of all sources: listings, releases, and the files that a release consists of."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from model.checkpoint_config import ANY, LanguageHint, Origin
from service.hub.names import HubName
from service.hub.progress import Progress


class Listing(NamedTuple):
    """A model that an index offers."""

    name: HubName
    source: str
    target: str
    revision: str
    size: int | None
    """Bytes to download; None if the index does not tell."""
    licence: str | None


class Files(NamedTuple):
    """The downloaded files of a release, checked."""

    path: Path
    """The directory or the package that the importer reads."""
    sha256: Mapping[str, str]
    """The sum of each file, as it was downloaded."""


@dataclass(frozen=True)
class Release:
    """One revision of a model, found in its index and not yet downloaded."""

    origin: Origin
    """Origin without the sums of the files."""
    size: int | None
    """Bytes to download; None if the index does not tell."""
    fetch: Callable[[Path, Progress], Files]
    """Downloads the files into a directory, from the byte at which an earlier attempt was cut. Raises `HubError`."""
    languages: LanguageHint = ANY
    """The languages, for formats whose files do not name them."""


def version_key(version: str) -> tuple[int, ...]:
    """Return a key by which 1.10 comes after 1.9."""
    return tuple(map(int, re.findall(r"\d+", version)))
