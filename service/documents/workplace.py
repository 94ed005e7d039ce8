"""The directory of a server's documents: made at the start, and left by no server for ever."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

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
        with contextlib.suppress(OSError, Timeout):
            if left.lstat().st_uid == os.getuid() and (left / _LOCK).exists():
                with FileLock(left / _LOCK, blocking=False):
                    shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    with FileLock(directory / _LOCK):
        yield directory
        shutil.rmtree(directory, ignore_errors=True)
