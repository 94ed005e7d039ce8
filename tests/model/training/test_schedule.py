"""The learning rate over a run, and its end, by steps and by the clock."""

from typing import Any

import pytest

from model.training.config import OptimiserConfig
from model.training.schedule import Decay, is_decaying, is_over, learning_rate, share_left


def _options(**options: Any) -> OptimiserConfig:
    return OptimiserConfig.model_validate({"learning_rate": 1.0, "warmup_steps": 20, "max_steps": 1000} | options)


FLAT = _options(schedule="flat", decay=0.2)


def _rates(options: OptimiserConfig, *steps: int) -> list[float]:
    return [learning_rate(options, step, 0.0) for step in steps]


@pytest.mark.parametrize("schedule", ["flat", "cosine"])
def test_the_rate_rises_linearly_at_first(schedule: str) -> None:
    options = _options(schedule=schedule, max_steps=10**9)
    assert _rates(options, 0, 9, 19, 20) == pytest.approx([0.05, 0.5, 1.0, 1.0])


def test_a_flat_run_stays_flat_until_its_last_part_falls_to_zero() -> None:
    assert _rates(FLAT, 20, 500, 799) == [1.0, 1.0, 1.0]
    assert _rates(FLAT, 850, 900, 990, 1000) == pytest.approx([0.75, 0.5, 0.05, 0.0])


def test_a_cosine_falls_from_the_start() -> None:
    assert _rates(_options(schedule="cosine"), 250, 500, 750, 1000) == pytest.approx([0.8536, 0.5, 0.1464, 0], abs=1e-4)


@pytest.mark.parametrize("schedule", ["flat", "cosine"])
def test_a_run_by_the_clock_has_the_rates_of_a_run_by_steps(schedule: str) -> None:
    """Ten minutes are its thousand steps."""
    by_steps = _options(schedule=schedule)
    by_clock = _options(schedule=schedule, minutes=10, max_steps=10**9)
    for step in (30, 500, 850, 999):
        assert learning_rate(by_clock, step, 0.6 * step) == pytest.approx(learning_rate(by_steps, step, 1e9), rel=1e-4)


def test_steps_or_minutes_end_a_run_whichever_comes_first() -> None:
    options = _options(minutes=10)
    assert share_left(options, 500, 60) == pytest.approx(0.5)
    assert share_left(options, 100, 480) == pytest.approx(0.2)
    assert not is_over(options, 999, 599, None)
    assert is_over(options, 1000, 0, None)
    assert is_over(options, 0, 600, None)
    assert not is_over(_options(), 999, 1e9, None)


def test_only_the_end_of_a_flat_run_is_its_decay() -> None:
    assert [is_decaying(FLAT, step, 0, None) for step in (0, 799, 801, 1000)] == [False, False, True, True]
    assert not is_decaying(_options(schedule="cosine"), 999, 0, None)
    assert is_decaying(FLAT, 0, 0, Decay.now(FLAT, 0, 0, None))


def test_a_decay_by_steps_is_the_share_of_the_whole_run_that_the_config_names() -> None:
    decay = Decay.now(FLAT, 400, 0.0, None)
    assert [learning_rate(FLAT, step, 1e9, decay) for step in (400, 450, 500)] == pytest.approx([1.0, 0.5, 0.0])
    assert [is_over(FLAT, step, 0.0, decay) for step in (400, 499, 500)] == [False, False, True]


def test_a_decay_by_minutes_does_not_count_steps() -> None:
    decay = Decay.now(FLAT, 400, 1000.0, minutes=2)
    assert [learning_rate(FLAT, 10**6, second, decay) for second in (1000, 1030, 1120)] == pytest.approx([1, 0.75, 0])
    assert [is_over(FLAT, 10**6, second, decay) for second in (1000, 1119, 1120)] == [False, False, True]


def test_a_decay_goes_on_past_the_end_of_the_schedule_it_replaces() -> None:
    decay = Decay.now(FLAT, 790, 0.0, minutes=10)
    assert not is_over(FLAT, 1001, 60.0, decay)
    assert learning_rate(FLAT, 1001, 60.0, decay) == pytest.approx(0.9)


@pytest.mark.parametrize("minutes", [None, 10])
@pytest.mark.parametrize(("schedule", "step"), [("flat", 900), ("flat", 990), ("cosine", 400), ("cosine", 900)])
def test_a_decay_begins_at_the_present_rate(schedule: str, step: int, minutes: float | None) -> None:
    options = _options(schedule=schedule, decay=0.2)
    decay = Decay.now(options, step, 0.0, minutes)
    [before] = _rates(options, step)
    assert 0 < before < 1
    assert learning_rate(options, step, 0.0, decay) == pytest.approx(before)
    assert learning_rate(options, step + 1, 1.0, decay) < before


def test_a_decay_in_the_first_step_ends() -> None:
    decay = Decay.now(FLAT, 0, 0.0, None)
    assert not is_over(FLAT, 0, 0.0, decay)
    assert is_over(FLAT, 1, 0.0, decay)


def test_the_rate_is_never_negative() -> None:
    for options in (FLAT, _options(schedule="cosine", minutes=1)):
        assert learning_rate(options, 5000, 1e6) == 0.0
    assert learning_rate(FLAT, 10**6, 1e6, Decay.now(FLAT, 100, 0.0, 1)) == 0.0
