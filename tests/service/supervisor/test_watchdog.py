"""Silences of an engine that are hangs, and those that are not."""

import errno
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from service.supervisor.forks import Watchdog

_BUSY = "import os\nwhile os.getppid() == {parent}: pass"


@pytest.fixture(params=[True, False], ids=["busy", "standing still"])
def process(request: pytest.FixtureRequest) -> Iterator[tuple[int, bool]]:
    """Yield a process's id, and whether it takes processor time."""
    program = _BUSY if request.param else "input()"
    command = [sys.executable, "-c", program.format(parent=os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as running:
        yield running.pid, request.param
        running.kill()


def _looks(pid: int, heard_at: float, patience_seconds: float, count: int) -> list[bool]:
    """Each look late enough for a tick of the processor's clock, and a process that stands still is at rest."""
    time.sleep(0.5)
    watched = Watchdog(pid, 0.1)
    seen = []
    for _ in range(count):
        seen.append(watched.is_hung(heard_at, patience_seconds))
        time.sleep(0.3)
    return seen


def test_standing_still_is_a_hang_and_work_is_none(process: tuple[int, bool]) -> None:
    pid, is_busy = process
    looks = _looks(pid, time.monotonic(), math.inf, count=4)
    assert looks == ([False] * 4 if is_busy else [False, False, True, True])


def test_patience_ends_for_all(process: tuple[int, bool]) -> None:
    pid, _ = process
    assert _looks(pid, time.monotonic() - 10, 9, count=2) == [False, True]
    assert _looks(pid, time.monotonic(), 9, count=2) == [False, False]


def test_what_was_heard_counts() -> None:
    with subprocess.Popen(["sleep", "600"]) as running:
        watched = Watchdog(running.pid, 0.1)
        for _ in range(4):
            assert not watched.is_hung(time.monotonic(), 9)
            time.sleep(0.2)
        running.kill()


def test_who_cannot_look_does_not_take_it_for_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine without a free descriptor is unknown; its timeout still counts."""

    def no_descriptor(pid: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("psutil.Process", no_descriptor)
    heard_at = time.monotonic()
    watched = Watchdog(os.getpid(), 0.05)
    for _ in range(4):
        assert not watched.is_hung(heard_at, 600)
        time.sleep(0.1)
    assert [watched.is_hung(heard_at, 0) for _ in range(2)] == [False, True]
