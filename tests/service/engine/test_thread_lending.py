"""Engines that lend one another their threads. Both engines are this process, which borrows as the first one."""

import os
import time
from collections.abc import Iterator

import pytest
import torch

from service.engine.messages import Cancel, Command, Report
from service.engine.thread_lending import LendingChannel, ThreadLending

LONG_ENOUGH_SECONDS = 0.02


def usable_threads() -> int:
    time.sleep(LONG_ENOUGH_SECONDS)
    threads: int = torch.ops.dragoman.usable_threads()
    return threads


class Observed:
    """A channel that notes how many threads the first engine could use at each call."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.sent: list[Report] = []

    def receive(self, *, wait: bool) -> list[Command]:
        self.threads.append(usable_threads())
        return [Cancel(1)]

    def send(self, report: Report) -> None:
        self.sent.append(report)


@pytest.fixture
def lending(operators: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadLending]:
    monkeypatch.setattr(os, "getppid", os.getpid)
    lending = ThreadLending(engines=2, threads=2)
    lending.join(0, Observed())
    yield lending
    torch.ops.dragoman.lend_threads(torch.zeros(1, dtype=torch.int64), 0, 0)


def test_an_engine_lends_its_threads_only_while_it_waits_for_work(lending: ThreadLending) -> None:
    observed = Observed()
    channel = LendingChannel(observed, lending, 1)
    lending.take_back(1)
    for wait in (False, True, False):
        assert channel.receive(wait=wait) == [Cancel(1)]
    assert observed.threads == [1, 2, 1]


def test_what_died_at_work_lends_once_it_is_replaced(lending: ThreadLending) -> None:
    lending.take_back(1)
    assert usable_threads() == 1
    if (pid := os.fork()) == 0:
        lending.lend(1)  # as its replacement does, in a process of its own
        os._exit(0)
    os.waitpid(pid, 0)
    assert usable_threads() == 2


def test_engines_of_a_fork_server_that_is_gone_borrow_no_more(
    lending: ThreadLending, monkeypatch: pytest.MonkeyPatch
) -> None:
    lending.lend(1)
    assert usable_threads() == 2
    monkeypatch.setattr(os, "getppid", lambda: 1)
    lending.lend(0)
    assert usable_threads() == 1


def test_reports_are_passed_on(lending: ThreadLending) -> None:
    observed = Observed()
    LendingChannel(observed, lending, 1).send("a report")  # type: ignore[arg-type]
    assert observed.sent == ["a report"]
