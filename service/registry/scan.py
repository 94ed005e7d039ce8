"""What is in a models directory. Knows nothing of how it is loaded."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from model.checkpoint_config import CheckpointError, fingerprint

_PACKAGE: Final = ".argosmodel"


class Found(NamedTuple):
    """A checkpoint in the directory, as it was when it was looked at."""

    name: str
    path: Path
    fingerprint: str


def look(directory: Path) -> Mapping[str, Found]:
    """The checkpoints of a directory, by name: all of its directories and Argos packages that are not hidden.

    Raises `CheckpointError` where there is no such directory.
    """
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        raise CheckpointError(f"{directory}: {error.strerror}") from None
    found = (_found(path) for path in paths if path.name[0] != ".")
    return {each.name: each for each in found if each is not None}


def passed_over(directory: Path, found: Collection[str]) -> list[str]:
    """What else is in a directory, by name, but for what is hidden: files that are no packages, broken links."""
    return sorted(path.name for path in directory.iterdir() if path.name[0] != "." and path.name not in found)


def _found(path: Path) -> Found | None:
    try:
        is_model = path.is_dir() or path.suffix == _PACKAGE
        return Found(path.name, path, fingerprint(path)) if is_model else None
    except OSError:
        return None  # it is being removed at this moment, or cannot be read
