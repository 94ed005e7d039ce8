"""A directory of models that is followed: what came, what changed and what is gone, once two scans agree."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from service.registry.importing import DEFAULT_LIMITS, ImportLimits
from service.registry.scan import FoundModel, scan


class ModelsDirectory(NamedTuple):
    """A directory of models, the time between two scans of it, and the limits of importing one of them."""

    path: Path | None = None
    """None if the server serves models that its settings name."""
    poll_seconds: float = 5.0
    import_limits: ImportLimits = DEFAULT_LIMITS


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
