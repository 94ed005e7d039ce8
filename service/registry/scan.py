"""Scans of the models directory: what came, what changed and what is gone, once two of them agree.

Knows nothing of how models are loaded.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from model.checkpoint_config import CheckpointError, fingerprint
from service.hub.names import PACKAGE, HubName


class FoundModel(NamedTuple):
    """A checkpoint in the directory, as it was at the scan, or one that the settings name."""

    name: str
    location: Path | HubName
    """A path, or the name of a public model, which is downloaded first."""
    fingerprint: str
    """Fingerprint of the files at the scan; empty for what the settings name."""


def scan(directory: Path) -> Mapping[str, FoundModel]:
    """Return the checkpoints of a directory by name: all directories and Argos packages that are not hidden.

    Raises `CheckpointError` if the directory cannot be read.
    """
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        raise CheckpointError(f"{directory}: {error.strerror}") from None
    found = (_found(path) for path in paths if path.name[0] != ".")
    return {each.name: each for each in found if each is not None}


def ignored_entries(directory: Path, found: Collection[str]) -> list[str]:
    """Return the names that are not models, except hidden ones: other files, broken links."""
    return sorted(path.name for path in directory.iterdir() if path.name[0] != "." and path.name not in found)


def _found(path: Path) -> FoundModel | None:
    try:
        is_model = path.is_dir() or path.suffix == PACKAGE
        return FoundModel(path.name, path, fingerprint(path)) if is_model else None
    except OSError:
        return None  # it is being removed at this moment, or cannot be read


class Changes(NamedTuple):
    """The result on which two scans agree: one may miss a file on a network disk, or see a model half copied."""

    present: Sequence[FoundModel]
    """The models that both found unchanged."""
    names: frozenset[str]
    """The names that at least one of them found."""


class DirectoryScans:
    """The scans of one directory."""

    def __init__(self, path: Path, found: Iterable[FoundModel]) -> None:
        """`found` are the models that the server started with."""
        self._path = path
        self._seen: Mapping[str, FoundModel] = {each.name: each for each in found}

    def scan(self) -> Changes:
        """Scan the directory once more, which takes a while. Raises `CheckpointError` if it cannot be read."""
        found = scan(self._path)
        seen, self._seen = self._seen, found
        present = [each for name, each in found.items() if seen.get(name) == each]
        return Changes(present, frozenset(found) | frozenset(seen))
