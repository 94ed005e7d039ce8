"""Medians, ranges, ratios and percentiles."""

import pytest

from loadtest.bench.summary import Spread, percentile, ratio, spread


def test_spread() -> None:
    assert spread([3.0, 9.0, 1.0]) == Spread(median=3.0, lowest=1.0, highest=9.0)


def test_ratio_is_of_the_medians_and_its_range_of_the_rounds() -> None:
    # Rounds: 200/100, 100/50, 900/90. Medians: 200 and 90.
    assert ratio([200.0, 100.0, 900.0], [100.0, 50.0, 90.0]) == Spread(200 / 90, 2.0, 10.0)


def test_ratio_says_how_much_faster_ours_is() -> None:
    assert ratio([10.0], [40.0]).median == 0.25


def test_rounds_that_are_missing_are_noticed() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)])
def test_percentile_of_a_hundred(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], percent) == expected


def test_percentile_of_few() -> None:
    assert percentile([7.0], 1) == percentile([7.0], 99) == 7.0
    assert percentile([1.0, 2.0, 3.0], 50) == 2.0
