"""Reckon the figures that the deck measures of a run by itself."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta


def at_rank(counts: Mapping[int, int], part: float) -> int | None:
    """Return the least value that at least `part` of all items do not exceed; None without items.

    Args:
        counts: Items by value.
        part: 0 < part ≤ 1: 0.5 is the median.
    """
    total = sum(counts.values())
    # What a product of floats has too much, as 0.95 · 20 does, is not one item more.
    wanted, seen = math.ceil(part * total - 1e-9), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= wanted and counts[value] > 0:
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
    """Return since when what is new has come in: rates are over the time from then to now.

    Args:
        last_at: The measurement before.
        was_quiet: Nothing had happened at that one, and none was taken since because nothing did.
        first_at: When the first thing happened that is known to the second.
        now: The present measurement.
        usual: Time between two of them.

    Returns:
        The measurement before, or, after quiet, the usual time ago: the rest of the time nothing
        happened, and would make of a burst a trickle.
    """
    if not was_quiet:
        return last_at
    usually = now - usual
    return max(last_at, usually if first_at is None else min(usually, first_at))
