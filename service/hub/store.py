"""The cache of pulled models: checkpoints of our own format, each with its origin. Knows no network."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from filelock import FileLock, Timeout

from model.checkpoint_config import CheckpointConfig, CheckpointError, Origin, load_config
from model.user_cache import user_cache
from service.hub.names import HubName

_SHORTEST_REVISION: Final = 7
"""The least characters of a commit's name, as with git."""


class Entry(NamedTuple):
    """A pulled model."""

    path: Path
    config: CheckpointConfig
    origin: Origin

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.path.iterdir())


class Sizes(NamedTuple):
    """Bytes on the disk."""

    total: int
    of_names: Sequence[int]


class Store:
    """The directory of pulled models. Hidden directories in it hold downloads under way and locks."""

    def __init__(self) -> None:
        self._root = user_cache() / "hub"

    def entries(self) -> Sequence[Entry]:
        """List the pulled models by name, the newest of each name first."""
        if not self._root.exists():
            return []
        paths = sorted((path for path in self._root.iterdir() if path.name[0] != "."), key=_age)
        found = [entry for path in paths if (entry := _entry(path)) is not None]
        return sorted(found, key=lambda each: each.origin.name)

    def matching(self, name: HubName) -> Sequence[Entry]:
        """List the pulled revisions of a name, the newest first."""
        return [each for each in self.entries() if _matches(each.origin, name)]

    def find(self, name: HubName) -> Path | None:
        """Return the newest checkpoint of a name; None if there is none."""
        return next((each.path for each in self.matching(name)), None)

    def lock(self, name: str) -> FileLock:
        """Return the lock of a name's models: a process holds it while it changes them."""
        locks = self._root / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        return FileLock(locks / f"{_slug(name)}.lock")

    def staging(self, origin: Origin) -> Path:
        """Return the directory of a name's download, with the files that an earlier attempt left there."""
        path = self._root / ".downloads" / _slug(f"{origin.name}@{origin.revision}")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def keep(self, checkpoint: Path, origin: Origin) -> Path:
        """Move a checkpoint into the cache in one step, with its origin; return its new path."""
        add_origin(checkpoint, origin)
        place = self._root / _slug(f"{origin.name}@{origin.revision}")
        if place.exists():
            shutil.rmtree(place)
        return checkpoint.rename(place)

    def sizes(self, names: Sequence[HubName]) -> "Sizes":
        """Measure the whole cache, and the models of each of `names`."""
        entries = [(each.origin, each.size) for each in self.entries()]
        of_names = [sum(size for origin, size in entries if _matches(origin, name)) for name in names]
        return Sizes(sum(size for _, size in entries), of_names)

    def remove_matching(self, name: HubName) -> bool:
        """Remove all models of a name; return False if another process is changing them."""
        lock = self.lock(str(name.unpinned))
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        try:
            for entry in self.matching(name):
                self.remove(entry)
        finally:
            lock.release()
        return True

    def remove(self, entry: Entry) -> None:
        """Remove a model: from the list in one step, then from the disk."""
        hidden = entry.path.with_name(f".removed-{entry.path.name}")
        shutil.rmtree(hidden, ignore_errors=True)
        entry.path.rename(hidden)
        shutil.rmtree(hidden)


def add_origin(checkpoint: Path, origin: Origin) -> CheckpointConfig:
    """Write the origin into a checkpoint; return its configuration."""
    config = load_config(checkpoint).model_copy(update={"origin": origin})
    (checkpoint / "config.json").write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return config


def _slug(name: str) -> str:
    """Return a file name: hf:OWNER/NAME@REVISION as hf--OWNER--NAME--REVISION."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "--", name)


def _age(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except OSError:  # another process is removing it
        return 0.0


def _entry(path: Path) -> Entry | None:
    """Read a pulled model; None if it is damaged or something else: pulling it again replaces it."""
    try:
        config = load_config(path)
    except CheckpointError:
        return None
    return None if config.origin is None else Entry(path, config, config.origin)


def _matches(origin: Origin, name: HubName) -> bool:
    if origin.name.lower() != str(name.unpinned).lower():
        return False
    if name.revision is None or name.revision in (origin.revision, *origin.aliases):
        return True
    return len(name.revision) >= _SHORTEST_REVISION and origin.revision.startswith(name.revision)
