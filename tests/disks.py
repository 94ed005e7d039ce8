"""A disk that can be filled: a real file system of one megabyte."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_BLOCK: Final = 4096


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._filling = path / "filling"

    def fill(self) -> None:
        """Fill the disk to its last byte."""
        with self._filling.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * _BLOCK)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_room(self) -> None:
        self._filling.unlink()


@contextmanager
def small_disk(directory: Path) -> Iterator[SmallDisk]:
    """Mounted below `directory`; skips the test where nothing can be mounted."""
    path = directory / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"SKIPPED: no file system can be mounted ({error}); a full disk is not tested")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", str(path)], check=True)
