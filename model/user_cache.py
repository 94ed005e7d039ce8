"""The user's directory for compiled operators, and for models that were downloaded or imported."""

from contextlib import suppress
from pathlib import Path

import platformdirs


class NoHomeError(OSError):
    """A user whose files have no place; the message names the remedy."""


def user_cache() -> Path:
    """Return the directory, which need not exist yet; raises `NoHomeError`."""
    with suppress(RuntimeError):  # older versions of platformdirs return a relative path
        if (directory := platformdirs.user_cache_path("dragoman")).is_absolute():
            return directory
    raise NoHomeError("this user has no home directory: set XDG_CACHE_HOME to a directory that this user can write")
