"""Recent training returns of a run."""

from collections.abc import Iterable, Sequence
from typing import Final

RECENT_RETURNS: Final = 20
"""Number of episodes whose mean return measures the present policy."""


def recent_returns_of(earlier: Sequence[float], latest: Iterable[float]) -> list[float]:
    """Return the last returns, oldest first, at most :data:`RECENT_RETURNS`."""
    return [*earlier, *latest][-RECENT_RETURNS:]


def mean(returns: Sequence[float]) -> float | None:
    """Return the mean of `returns`; None without any."""
    return sum(returns) / len(returns) if returns else None
