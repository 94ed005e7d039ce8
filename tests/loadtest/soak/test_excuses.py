"""A connection may be closed without an answer if the soak itself has killed the server, or has stalled."""

import asyncio
import random
import signal
import socket
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from loadtest.soak import supervisor
from loadtest.soak.canaries import Tally
from loadtest.soak.site import Places, Site
from loadtest.soak.stalls import Stalls
from loadtest.soak.supervisor import Supervisor
from loadtest.soak.wire import Answer

CUT = Answer(0, {}, b"")


class Process:
    """A server that ends when the test says so."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    started: list[Process] = []

    def start(*arguments: object) -> Process:
        started.append(Process(len(started)))
        return started[-1]

    monkeypatch.setattr(supervisor, "start_server", start)
    monkeypatch.setattr("loadtest.soak.supervisor.os.kill", lambda pid, how: None)
    return started


@pytest.fixture
def site(processes: list[Process], tmp_path: Path) -> Site:
    nothing: Any = None
    supervised = Supervisor([], tmp_path / "log", {})
    return Site(supervised, nothing, random.Random(), Places(tmp_path), 32, [], Tally(), Stalls(0.3))


async def _supervise_until_restarted(site: Site, processes: list[Process]) -> None:
    count = len(processes)
    task = asyncio.create_task(site.supervisor.supervise())
    while len(processes) == count:  # noqa: ASYNC110  the stand-in has no event
        await asyncio.sleep(0.01)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _note(site: Site, since: float) -> str:
    site.outcomes.clear()
    site.note("flood", "id", CUT, frozenset({"ok"}), since)
    [outcome] = site.outcomes["flood"]
    return outcome


async def test_a_connection_that_a_killed_server_accepts_before_its_end(site: Site, processes: list[Process]) -> None:
    site.supervisor.kill()
    between = time.monotonic()
    assert _note(site, between) == "cut by a killed server"
    processes[-1].status = -signal.SIGKILL
    await _supervise_until_restarted(site, processes)
    assert _note(site, between) == "cut by a killed server"
    assert (site.problems, site.supervisor.problems, len(site.supervisor.ends)) == ([], [], 1)
    assert _note(site, time.monotonic()) == "cut"
    assert site.problems == ["flood: cut (status 0) for id"]


@pytest.mark.parametrize("status", [0, 1, -signal.SIGKILL])
async def test_an_end_that_nobody_caused_is_a_problem(site: Site, processes: list[Process], status: int) -> None:
    processes[-1].status = status
    await _supervise_until_restarted(site, processes)
    assert site.supervisor.problems == [f"the server ended by itself, with status {status}"]


async def test_a_server_may_close_connections_after_a_stall_of_the_soak(site: Site) -> None:
    before = time.monotonic()
    with site.stalls.watched():
        await asyncio.sleep(0.2)
        assert _note(site, before) == "cut"
        time.sleep(0.5)  # noqa: ASYNC251  nothing else runs meanwhile, which is the point
        await asyncio.sleep(0.01)
        assert _note(site, before) == "cut after a stall of the soak"
        assert site.stalls.longest_seconds > 0.3
        assert _note(site, time.monotonic()) == "cut"


async def test_the_timer_is_called_before_tasks_whose_data_came_in_a_stall() -> None:
    stalls = Stalls(0.3)
    here, there = socket.socketpair()
    here.setblocking(False)
    before = time.monotonic()
    with closing(here), closing(there), stalls.watched():
        reading = asyncio.create_task(asyncio.get_running_loop().sock_recv(here, 1))
        await asyncio.sleep(0.01)
        there.send(b"1")
        time.sleep(0.5)  # noqa: ASYNC251
        assert await reading == b"1"
        assert stalls.was_too_long_since(before)
