"""Statistics of scores of any size: finite if the scores are."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_LARGE: Final = 1e150
"""Scores above this are averaged in units of the largest."""
_LARGEST: Final = 1.79e308
"""Largest statistic: sums in the database round it to 15 digits, which stays finite."""


def mean_and_deviation(scores: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return the mean and the standard deviation of scores, ``[N]``, N at least 1."""
    largest = float(np.abs(scores).max())
    if not _LARGE < largest < np.inf:
        with np.errstate(all="ignore"):
            return float(scores.mean()), float(scores.std())
    # Squared in units of the largest, which avoids an overflow.
    units = scores / largest
    mean, deviation = float(units.mean()) * largest, float(units.std()) * largest
    return min(_LARGEST, max(-_LARGEST, mean)), min(_LARGEST, deviation)
