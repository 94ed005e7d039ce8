"""A slope and its interval: how sure one may be that a process grows."""

import numpy as np
import pytest

from loadtest.soak.leaks import Sample, _student, slope

HOUR = 3600.0


def _samples(growth: float, *, correlation: float, seed: int, count: int = 120) -> list[Sample]:
    """Two hours of a process of 100 MB: its growth in MB an hour, and noise that moves slowly."""
    rng = np.random.default_rng(seed)
    noise = 0.0
    samples = []
    for number in range(count):
        noise = correlation * noise + float(rng.normal(0, 0.3))
        hours = 2 * number / count
        samples.append(Sample(hours * HOUR, 100 + growth * hours + noise))
    return samples


def test_a_line_is_its_own_slope() -> None:
    found = slope([Sample(60.0 * minute, 100 + minute / 60) for minute in range(121)])
    assert found is not None
    assert found.per_hour == pytest.approx(100 / 101, rel=0.01)
    assert found.high - found.low == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.85])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(correlation: float) -> None:
    """An interval for independent samples would hold it in 57 % with a correlation of 0.85."""
    held = 0
    for seed in range(300):
        found = slope(_samples(1.0, correlation=correlation, seed=seed))
        assert found is not None
        held += found.low <= 1.0 <= found.high
    assert 0.88 <= held / 300 <= 0.99


def test_noise_that_moves_slowly_says_less() -> None:
    quick, slow = (slope(_samples(1.0, correlation=each, seed=3)) for each in (0.0, 0.8))
    assert quick is not None
    assert slow is not None
    assert slow.high - slow.low > 2 * (quick.high - quick.low)
    assert slow.independent_samples < quick.samples / 3


def test_lives_have_levels_of_their_own_and_a_first_sample_that_does_not_count() -> None:
    """A process that starts anew is small at first; and each life may settle elsewhere."""
    lives = [
        Sample(1000.0 * life + 100.0 * number, (50.0 if number == 0 else 100.0 + 5 * (life % 2)), life)
        for life in range(6)
        for number in range(8)
    ]
    found = slope(lives)
    assert found is not None
    assert found.per_hour == pytest.approx(0, abs=1e-9)
    assert found.samples == 6 * 7
    together = slope([each._replace(life=0) for each in lives])
    assert together is not None
    assert together.high - together.low > 1


@pytest.mark.parametrize("count", [0, 1, 4])
def test_too_few_samples_have_no_slope(count: int) -> None:
    assert slope([Sample(60.0 * number, 100.0) for number in range(count)]) is None
    assert slope([Sample(60.0 * number, 100.0, life=number) for number in range(20)]) is None


@pytest.mark.parametrize(("freedom", "quantile"), [(2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (1e6, 1.96)])
def test_student_s_quantile(freedom: float, quantile: float) -> None:
    assert _student(freedom) == pytest.approx(quantile, rel=0.01)
