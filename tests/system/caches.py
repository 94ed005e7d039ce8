"""A cache of one's own for imported models."""

import shutil
from pathlib import Path

import platformdirs

from model.kernels.compiler import file_name


def make_cache(directory: Path) -> Path:
    """Make a directory for XDG_CACHE_HOME; the C++ operators, which take long to compile, are those of all tests."""
    cache = directory / "dragoman"
    cache.mkdir(parents=True)
    # With their sum; a link is not loaded, as others may have written what it leads to.
    for compiled in platformdirs.user_cache_path("dragoman").glob(f"{Path(file_name()).stem}.s*"):
        shutil.copy(compiled, cache)
    return directory


def imported(directory: Path) -> list[Path]:
    """List the imported models in a cache, and what an import has left there."""
    return list(directory.glob("dragoman/models/*"))
