"""The number of threads that an engine may use, by the time since when other engines have no work."""

import time
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from model.kernels import library

WORKS = 0


@pytest.fixture
def idle_since(operators: None) -> Iterator[Tensor]:
    """Four engines of one thread each, all at work; this process is the second."""
    times = torch.full((4,), WORKS)
    library.lend_threads(times, 1, 4)
    yield times
    library.lend_threads(times, 1, 0)


def test_engines_at_work_share_the_threads_of_the_others(idle_since: Tensor) -> None:
    threads = []
    for number in (0, 2, 3):
        threads.append(library.usable_threads())
        idle_since[number] = time.monotonic_ns() - 10**9
    threads.append(library.usable_threads())
    assert threads == [1, 1, 2, 4]


def test_the_own_time_does_not_count(idle_since: Tensor) -> None:
    idle_since[1] = time.monotonic_ns() - 10**9
    assert library.usable_threads() == 1


def test_threads_are_not_lent_at_once(idle_since: Tensor) -> None:
    """The engine's next command may be on its way."""
    idle_since[:] = time.monotonic_ns() + 10**9
    assert library.usable_threads() == 1


def test_an_engine_keeps_its_own_threads(idle_since: Tensor) -> None:
    library.lend_threads(idle_since, 1, 2)
    idle_since[[0, 2, 3]] = time.monotonic_ns() - 10**9
    torch.set_num_threads(3)
    try:
        assert library.usable_threads() == 3
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("own", [-1, 4])
def test_an_engine_that_is_none_of_them_is_refused(idle_since: Tensor, own: int) -> None:
    with pytest.raises(RuntimeError, match=f"engine {own} is none of 4"):
        library.lend_threads(idle_since, own, 4)
