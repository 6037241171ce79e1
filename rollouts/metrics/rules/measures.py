"""Calculations for the platform's built-in metrics of a run."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta


def at_rank(counts: Mapping[int, int], part: float) -> int | None:
    """Return the smallest value that `part` of all items do not exceed; None without items.

    Args:
        counts: Items by value.
        part: 0 < part ≤ 1: 0.5 is the median.
    """
    total = sum(counts.values())
    # A floating-point excess, as in 0.95 · 20, does not add an item.
    rank, seen = math.ceil(part * total - 1e-9), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= rank and counts[value] > 0:
            return value
    return None


def began_at(
    last_at: datetime,
    *,
    was_quiet: bool,
    first_at: datetime | None,
    now: datetime,
    usual: timedelta,
) -> datetime:
    """Return the beginning of the interval over which rates are computed, up to `now`.

    Args:
        last_at: Time of the previous measurement.
        was_quiet: Whether there was no activity at the previous measurement. Measurements pause
            without activity.
        first_at: Earliest known activity since then, to the second.
        now: Time of the present measurement.
        usual: Usual interval between two measurements.

    Returns:
        The previous measurement, or one usual interval ago after a pause: averaging over the pause
        would hide a burst.
    """
    if not was_quiet:
        return last_at
    usually = now - usual
    return max(last_at, usually if first_at is None else min(usually, first_at))
