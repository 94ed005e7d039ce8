"""A control group of Linux that allows its processes so much memory, and no more: the kernel kills one of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

_ROOT: Final = Path("/sys/fs/cgroup")


class _Files(NamedTuple):
    """Names of the same files in cgroup versions 1 and 2."""

    root: Path
    limit: str
    swap: str
    kills: str


def _version() -> _Files:
    """Raises `OSError` where no memory is counted."""
    if (_ROOT / "memory/memory.limit_in_bytes").exists():
        return _Files(_ROOT / "memory", "memory.limit_in_bytes", "memory.swappiness", "memory.oom_control")
    if "memory" not in (_ROOT / "cgroup.subtree_control").read_text():
        (_ROOT / "cgroup.subtree_control").write_text("+memory")
    return _Files(_ROOT, "memory.max", "memory.swap.max", "memory.events")


class MemoryGroup:
    def __init__(self, path: Path, files: _Files) -> None:
        self._path = path
        self._files = files

    def limit(self, size: int) -> None:
        """Limit memory to `size` bytes, without swap, which would only be slow."""
        (self._path / self._files.limit).write_text(f"{size}")
        swap = self._path / self._files.swap
        if swap.exists():
            swap.write_text("0")

    def take(self, pid: int) -> None:
        """A process, and all that it will start. What it has had before counts elsewhere, what it gets from now on
        here."""
        (self._path / "cgroup.procs").write_text(f"{pid}")

    @property
    def kills(self) -> int:
        """Return the number of processes that the kernel has killed since the group was made."""
        counts = dict(line.split() for line in (self._path / self._files.kills).read_text().splitlines())
        return int(counts["oom_kill"])


@contextmanager
def memory_group() -> Iterator[MemoryGroup]:
    """Skips the test where none can be made. All processes in it have to have ended before."""
    try:
        files = _version()
        path = files.root / f"dragoman-test-{os.getpid()}"
        path.mkdir()
    except OSError as error:
        pytest.skip(f"SKIPPED: no control group can be made ({error}); the kernel's out-of-memory killer is not tested")
    try:
        yield MemoryGroup(path, files)
    finally:
        path.rmdir()
