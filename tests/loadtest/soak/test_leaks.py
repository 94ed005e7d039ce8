"""A slope and its interval: how sure one may be that a process grows."""

import numpy as np
import pytest

from loadtest.soak.leaks import slope

HOUR = 3600.0


def _samples(growth: float, *, correlation: float, seed: int) -> list[tuple[float, float]]:
    """Two hours of a process of 100 MB: its growth in MB an hour, and noise that moves slowly."""
    rng = np.random.default_rng(seed)
    noise = 0.0
    samples = []
    for number in range(120):
        noise = correlation * noise + float(rng.normal(0, 0.3))
        hours = number / 60
        samples.append((hours * HOUR, 100 + growth * hours + noise))
    return samples


def test_a_line_is_its_own_slope() -> None:
    found = slope([(60.0 * minute, 100 + minute / 60) for minute in range(121)])
    assert found is not None
    assert found.per_hour == pytest.approx(100 / 101, rel=0.01)
    assert found.high - found.low == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.85])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(correlation: float) -> None:
    """An interval for independent samples would hold it in 57 % with a correlation of 0.85."""
    found = [slope(_samples(1.0, correlation=correlation, seed=seed)) for seed in range(300)]
    held = sum(each is not None and each.low <= 1.0 <= each.high for each in found)
    assert 0.85 <= held / 300 <= 0.99


def test_too_few_samples_have_no_slope() -> None:
    assert slope([]) is None
    assert slope([(60.0 * number, 100.0) for number in range(19)]) is None
