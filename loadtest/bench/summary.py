"""Medians, ranges and ratios of raw figures; pure arithmetic."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """Median and range of the rounds of one measurement."""

    median: float
    lowest: float
    highest: float

    def text(self, digits: int) -> str:
        """Return `median (lowest-highest)` with so many digits after the point."""
        return f"{self.median:.{digits}f} ({self.lowest:.{digits}f}-{self.highest:.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """Return median and range of `values`, which must not be empty."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the ratio of our medians to theirs, with the lowest and highest ratio of any round.

    Both are in the order of the rounds; figures of one round were taken one after the other, so they
    share whatever else the machine was doing.
    """
    rounds = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Spread(statistics.median(ours) / statistics.median(theirs), min(rounds), max(rounds))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]
