"""The directory of a server's documents: made at the start, and left by no server for ever."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "dragoman-documents-"
_LOCK: Final = "lock"


class Workplace:
    """A directory that only this server uses, and that the system's lock shows to be in use."""

    def __init__(self, directory: Path, lock: int | None) -> None:
        self.directory = directory
        self._lock = lock

    @classmethod
    def temporary(cls) -> "Workplace":
        """Make a directory among the system's temporary files; remove those of servers that were killed."""
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _remove_unless_locked(left)
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        return cls(directory, _locked(directory / _LOCK))

    @classmethod
    def configured(cls, directory: Path) -> "Workplace":
        """Make a directory that the settings name, and empty it of documents."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in directory.glob("document-*"):
            shutil.rmtree(left, ignore_errors=True)
        return cls(directory, None)

    def leave(self) -> None:
        """Remove a temporary directory."""
        if self._lock is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
            os.close(self._lock)


def _locked(path: Path) -> int | None:
    """Lock a file as long as this process lives; None if another process has locked it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove_unless_locked(directory: Path) -> None:
    with contextlib.suppress(OSError):
        if directory.is_symlink() or directory.stat().st_uid != os.getuid() or not (directory / _LOCK).exists():
            return
        if (handle := _locked(directory / _LOCK)) is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(handle)
