"""Linear forecast of when a shrinking amount runs out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

LEAST_SAMPLES: Final = 10
LEAST_SECONDS: Final = 1800.0
"""Minimum length of a series. A shorter one describes the last minutes, not the days ahead."""
HORIZON_SECONDS: Final = 365 * 86_400.0
"""Longest forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Rate of change of an amount, and the time until it reaches its floor."""

    state: Literal["unknown", "steady", "shrinks", "below"]
    """`unknown`: the series is too short. `steady`: the amount does not shrink, or not within a
    year. `below`: the floor is already reached."""
    per_hour: float | None = None
    """Change per hour, negative while shrinking. None while unknown."""
    seconds_left: float | None = None
    """Time until the floor; None unless shrinking."""


def forecast(samples: Sequence[tuple[float, float]], *, floor: float) -> Forecast:
    """Extrapolate the least-squares line through a series.

    Args:
        samples: Seconds and amounts, oldest first.
        floor: Amount that counts as used up.
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
    """Return the least-squares slope, in amount per second."""
    count = len(samples)
    mean_at = sum(at for at, _ in samples) / count
    mean_amount = sum(amount for _, amount in samples) / count
    spread = sum((at - mean_at) ** 2 for at, _ in samples)
    return sum((at - mean_at) * (amount - mean_amount) for at, amount in samples) / spread
