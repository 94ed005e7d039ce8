"""The directory of a server's documents: made at the start, and left by no server for ever."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "dragoman-documents-"
_LOCK: Final = "lock"


@contextlib.contextmanager
def workplace(configured: Path | None) -> Iterator[Path]:
    """Provide a directory that only this server uses: the configured one, or one among the system's temporary files.

    A configured directory is made, and emptied of documents. A temporary one is locked, so that others see that it is
    in use, and removed at the end; those of servers that were killed are removed at the beginning. Raises `OSError`.
    """
    if configured is not None:
        configured.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in configured.glob("document-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield configured
        return
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_unless_locked(left)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = _locked(directory / _LOCK)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
    if lock is not None:
        os.close(lock)


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
    if directory.is_symlink() or directory.stat().st_uid != os.getuid() or not (directory / _LOCK).exists():
        return
    if (handle := _locked(directory / _LOCK)) is not None:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(handle)
