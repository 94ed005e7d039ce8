"""Growth per hour: a line through all readings, with the interval in which its slope lies with 95 % confidence."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

_PARTS: Final = 10
_STUDENT: Final = 2.306
"""The 97.5 % quantile of Student's distribution for a line through ten points."""
_HOUR: Final = 3600.0


class Slope(NamedTuple):
    """Growth in per cent of the mean value and per hour, and its interval of 95 % confidence."""

    per_hour: float
    low: float
    high: float


def slope(samples: Sequence[tuple[float, float]]) -> Slope | None:
    """Fit a line to times in seconds and their values; None if they are too few.

    Memory moves slowly, so the noise of one reading is still in the next: as independent samples they would promise far
    too much. The means of ten parts of the time hardly depend on one another.
    """
    if len(samples) < 2 * _PARTS:
        return None
    means = np.array([part.mean(axis=0) for part in np.array_split(np.array(samples), _PARTS)])
    (fitted, _), covariance = np.polyfit(means[:, 0] / _HOUR, 100 * means[:, 1] / means[:, 1].mean(), 1, cov=True)
    error = _STUDENT * float(np.sqrt(covariance[0, 0]))
    return Slope(float(fitted), float(fitted) - error, float(fitted) + error)
