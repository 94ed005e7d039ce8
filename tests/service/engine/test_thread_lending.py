"""Engines that lend one another their threads. Both engines are this process, which borrows as the first one."""

import os
import time
from collections.abc import Iterator

import pytest
import torch
from msgspec.structs import replace

from model.kernels import library
from service.engine.messages import Cancel, Command, EngineOptions, Report
from service.engine.thread_lending import MOST_THREADS, Lenders, LendingChannel, ThreadLending, lending_among

LONG_ENOUGH_SECONDS = 0.02


def usable_threads() -> int:
    time.sleep(LONG_ENOUGH_SECONDS)
    threads: int = library.usable_threads()
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
    lending = ThreadLending(Lenders(), 0, engines=2, threads=2)
    lending.join(0, Observed())
    yield lending
    library.lend_threads(torch.zeros(1, dtype=torch.int64), 0, 0)


def test_an_engine_lends_its_threads_only_while_it_waits_for_work(lending: ThreadLending) -> None:
    observed = Observed()
    channel = LendingChannel(observed, lending, 1)
    lending.lenders.take_back(1)
    for wait in (False, True, False):
        assert channel.receive(wait=wait) == [Cancel(1)]
    assert observed.threads == [1, 2, 1]


def test_what_died_at_work_lends_once_it_is_replaced(lending: ThreadLending) -> None:
    lending.lenders.take_back(1)
    assert usable_threads() == 1
    if (pid := os.fork()) == 0:
        lending.join(1, Observed())
        os._exit(0)
    os.waitpid(pid, 0)
    assert usable_threads() == 2


@pytest.mark.parametrize("wait", [False, True])
def test_engines_of_a_fork_server_that_is_gone_borrow_no_more(
    lending: ThreadLending, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    first = LendingChannel(Observed(), lending, 0)
    lending.lenders.lend(1)
    first.receive(wait=wait)
    assert usable_threads() == 2
    monkeypatch.setattr(os, "getppid", lambda: 1)
    first.receive(wait=wait)
    assert usable_threads() == 1


def test_one_engine_does_not_borrow_without_bound(operators: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getppid", os.getpid)
    many = ThreadLending(Lenders(), 0, engines=64, threads=64)
    many.join(0, Observed())
    assert usable_threads() == MOST_THREADS
    library.lend_threads(torch.zeros(1, dtype=torch.int64), 0, 0)


@pytest.mark.parametrize(
    ("engines", "threads", "cores", "limited", "together"),
    [(4, 1, 16, False, 4), (2, 3, 16, False, 6), (4, 1, 2, False, 2), (4, 1, 4, True, 3), (2, 1, 1, False, 1)],
)
def test_engines_have_no_more_threads_together_than_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, engines: int, threads: int, cores: int, limited: bool, together: int
) -> None:
    """And leave one core to the HTTP process where the system limits processor time."""
    monkeypatch.setattr("service.engine.thread_lending.usable_cores", lambda: cores)
    monkeypatch.setattr("service.engine.thread_lending.has_cpu_limit", lambda: limited)
    options = EngineOptions("", "int8", threads, 64, 8, 64, engines=engines, first_lender=0)
    lending = lending_among(options, Lenders())
    assert lending is not None
    assert lending.threads == together
    assert lending_among(replace(options, first_lender=-1), Lenders()) is None
    assert lending_among(options, None) is None, "nothing forks"


def test_engines_of_all_models_share_the_threads(lending: ThreadLending) -> None:
    first = LendingChannel(Observed(), lending, 0)
    other_model = ThreadLending(lending.lenders, 2, engines=2, threads=2)
    first.receive(wait=False)
    assert usable_threads() == 2
    other_model.lenders.extend(4)
    other_model.lenders.take_back(3)
    first.receive(wait=False)
    assert usable_threads() == 1
    other_model.lenders.lend(3)
    assert usable_threads() == 2
