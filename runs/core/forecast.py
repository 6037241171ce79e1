"""Say when something that shrinks will be used up, or why nobody can tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

LEAST_SAMPLES: Final = 10
LEAST_SECONDS: Final = 1800.0
"""Of a series: a shorter one says more about the last minutes than about the days ahead."""
HORIZON_SECONDS: Final = 365 * 86_400.0
"""What is further off than this is not foretold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How fast something shrinks, and when it reaches its floor at that rate."""

    state: Literal["unknown", "steady", "shrinks", "below"]
    """`unknown`: the series is too short. `steady`: it does not shrink, or not within a year.
    `below`: it is used up already."""
    per_hour: float | None = None
    """Change an hour; negative where it shrinks. None while unknown."""
    seconds_left: float | None = None
    """Until the floor; only where it shrinks."""


def forecast(samples: Sequence[tuple[float, float]], *, floor: float) -> Forecast:
    """Return what the straight line through a series comes to.

    Args:
        samples: Seconds and amounts, oldest first.
        floor: Amount at which it counts as used up.
    """
    if samples and samples[-1][1] <= floor:
        return Forecast(state="below", seconds_left=0.0)
    if len(samples) < LEAST_SAMPLES or samples[-1][0] - samples[0][0] < LEAST_SECONDS:
        return Forecast(state="unknown")
    slope = _slope(samples)
    left = (samples[-1][1] - floor) / -slope if slope < 0 else HORIZON_SECONDS
    if left >= HORIZON_SECONDS:
        return Forecast(state="steady", per_hour=slope * 3600)
    return Forecast(state="shrinks", per_hour=slope * 3600, seconds_left=left)


def _slope(samples: Sequence[tuple[float, float]]) -> float:
    """Return the slope of least squares, in amount a second."""
    count = len(samples)
    mean_at = sum(at for at, _ in samples) / count
    mean_amount = sum(amount for _, amount in samples) / count
    spread = sum((at - mean_at) ** 2 for at, _ in samples)
    return sum((at - mean_at) * (amount - mean_amount) for at, amount in samples) / spread
