"""Silences of an engine that are hangs, and those that are not."""

import errno
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from service.engine.messages import EngineOptions
from service.settings import EMBEDDED_MODEL
from service.supervisor.engine_process import EngineProcess
from service.supervisor.engine_requests import EngineObserver
from service.supervisor.fork_server import ForkServer
from service.supervisor.forks import Watchdog
from tests.generation_requests import generation_request, submitted

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


async def test_a_stopped_engine_is_replaced_long_before_its_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.supervisor.engine_process._STANDSTILL_SECONDS", 0.5)
    monkeypatch.setattr("service.supervisor.engine_process._CHECK_SECONDS", 0.25)
    options = EngineOptions(str(EMBEDDED_MODEL), "int8", threads=1, slots=1, max_prefill=1, max_length=256)
    engine = EngineProcess(ForkServer(options), 0, EngineObserver(), timeout_seconds=math.inf)
    engine.start()
    await engine.wait_until_started()

    async def read_all() -> list[int]:
        generation = submitted(engine.requests, generation_request([5, 2], 200))
        ids: list[int] = []
        while received := await generation.read_tokens(deadline=float("inf")):
            ids += [token.token_id for token in received]
        return ids

    try:
        first = engine.pid
        assert first is not None
        undisturbed = await read_all()
        os.kill(first, signal.SIGSTOP)  # before it has any work: it might be done before it stands still
        assert await read_all() == undisturbed
        assert engine.pid != first
    finally:
        await engine.stop()
