"""A cache of one's own for imported models."""

from pathlib import Path

import platformdirs


def make_cache(directory: Path) -> Path:
    """Make a directory for XDG_CACHE_HOME; the C++ operators, which take long to compile, are those of all tests."""
    cache = directory / "dragoman"
    cache.mkdir(parents=True)
    for compiled in platformdirs.user_cache_path("dragoman").glob("dragoman_kernels_*"):
        (cache / compiled.name).symlink_to(compiled)
    return directory


def imported(directory: Path) -> list[Path]:
    """List the imported models in a cache, and what an import has left there."""
    return list(directory.glob("dragoman/models/*"))
