"""Breaches of a limit by a series. numpy only.

A value holds from its sample until the next one. For a limit with a duration, a block of several
samples counts as a breach only if all its samples are; for a limit without one, a single sample
suffices. Results are exact for samples, and accurate to the width of a block for blocks.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollouts.metrics.rules.series import Blocks
from runs.alerts.rules.alert_rules import Comparator, Limit

MICROS: Final = 1_000_000


class Breach(NamedTuple):
    """An interval in which a series was beyond a limit, in µs since 1970."""

    began: int
    """Time of the first sample beyond the limit; for a silence, of the last sample before it."""
    ended: int | None
    """Time of the first sample within the limit again, or of any sample; None while it lasts."""


def breaches(blocks: Blocks, limit: Limit, *, until: int) -> list[Breach]:
    """Return the breaches that lasted as long as the limit requires, oldest first.

    Args:
        blocks: ``[N]`` over µs since 1970, in order.
        limit: The limit and the duration for which it must be exceeded.
        until: Time until which the last sample holds.
    """
    if limit.is_silence:
        return _silences(blocks, limit, until=until)
    beyond = _beyond(blocks, limit)
    edges = np.flatnonzero(np.diff(beyond, prepend=False, append=False))
    begins = blocks["x_first"]
    found = []
    for first, behind in zip(edges[::2], edges[1::2], strict=True):
        began = int(begins[first])
        ended = int(begins[behind]) if behind < len(blocks) else None
        if (until if ended is None else ended) - began >= limit.for_seconds * MICROS:
            found.append(Breach(began, ended))
    return found


def _silences(blocks: Blocks, limit: Limit, *, until: int) -> list[Breach]:
    """Return the long enough gaps without samples; gaps inside a block are not detected."""
    if not len(blocks):
        return []
    # Blocks are ordered by their first samples; a block may end after the next one.
    last = np.maximum.accumulate(blocks["x_last"])
    following = np.append(blocks["x_first"][1:], until)
    found = np.flatnonzero(following - last >= limit.for_seconds * MICROS)
    end = len(blocks) - 1
    return [Breach(int(last[at]), None if at == end else int(following[at])) for at in found]


def _beyond(blocks: Blocks, limit: Limit) -> NDArray[np.bool_]:
    """Return ``[N]``: whether each block counts as beyond the limit."""
    odd: NDArray[np.bool_] = blocks["nans"] + blocks["infinities"] > 0
    if limit.threshold is None:
        all_odd: NDArray[np.bool_] = odd & (blocks["count"] == 0)
        return all_odd if limit.for_seconds else odd
    # Comparisons with NaN (blocks without finite values) are false.
    most, least = blocks["max"], blocks["min"]
    if limit.for_seconds:
        most, least = least, most
    any_beyond: NDArray[np.bool_] = {
        Comparator.ABOVE: most > limit.threshold,
        Comparator.AT_LEAST: most >= limit.threshold,
        Comparator.BELOW: least < limit.threshold,
        Comparator.AT_MOST: least <= limit.threshold,
    }[limit.comparator]
    return any_beyond & ~odd if limit.for_seconds else any_beyond
