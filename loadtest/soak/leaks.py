"""Growth per hour: a slope over all readings, with the interval in which it lies with 95 % confidence."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_NORMAL: Final = 1.959964
"""97.5 % of a normal distribution lie below it."""
_FEWEST: Final = 4
_HOUR: Final = 3600.0

Floats = NDArray[np.float64]


class Sample(NamedTuple):
    """A value at a time. Values of different lives, which are those of a process, may lie on different levels."""

    seconds: float
    value: float
    life: int = 0


class Slope(NamedTuple):
    """Growth in per cent of the mean value and per hour: least squares, and its interval of 95 % confidence."""

    per_hour: float
    low: float
    high: float
    samples: int
    independent_samples: float
    """The number of independent samples that would say as much as these, which depend on one another."""


def slope(samples: Sequence[Sample]) -> Slope | None:
    """Fit one slope through all samples, with a level for each life; None if they are too few.

    A life's first sample is left out: what a process allocates at first use is no leak. Memory moves slowly, so the
    noise of one reading is still in the next: the interval of independent samples would be far too narrow. The noise is
    taken for autoregressive of first order: with a correlation r of successive residuals of a life (never taken below
    0), n samples say as much as n (1 - r) / (1 + r) independent ones, and the interval is that of so many.
    """
    lives = [list(each)[1:] for _, each in groupby(samples, key=lambda sample: sample.life)]
    lives = [each for each in lives if len(each) > 1]
    kept = [sample for each in lives for sample in each]
    freedom = len(kept) - len(lives) - 1
    if len(kept) < _FEWEST or freedom < 1:
        return None
    mean = float(np.mean([sample.value for sample in kept]))
    hours = [_centred([sample.seconds / _HOUR for sample in each]) for each in lives]
    values = [_centred([100 * sample.value / mean for sample in each]) for each in lives]
    spread = sum(float(each @ each) for each in hours)
    if not spread:
        return None
    fitted = sum(float(x @ y) for x, y in zip(hours, values, strict=True)) / spread
    residuals = [y - fitted * x for x, y in zip(hours, values, strict=True)]
    noise = sum(float(each @ each) for each in residuals)
    kept_share = _independent_share(residuals, noise)
    independent = max(freedom * kept_share, 2.0)
    error = math.sqrt(noise / freedom / spread / kept_share) * _student(independent)
    return Slope(fitted, fitted - error, fitted + error, len(kept), len(kept) * kept_share)


def _centred(values: Sequence[float]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    centred: Floats = array - array.mean()
    return centred


def _independent_share(residuals: Sequence[Floats], noise: float) -> float:
    """Return the share of the samples that autoregressive noise leaves: 1 if they are independent."""
    if not noise:
        return 1.0
    correlation = sum(float(each[1:] @ each[:-1]) for each in residuals) / noise
    correlation = min(max(correlation, 0.0), 0.99)
    return (1 - correlation) / (1 + correlation)


def _student(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's distribution: Cornish and Fisher's expansion of the normal one's."""
    z = _NORMAL
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))
