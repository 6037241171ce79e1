"""Breaches of a limit by a series. numpy only.

A value holds from its sample until the next one. A block of several samples counts as a breach only
if all its samples are.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from rollouts.metrics.rules import Blocks
from runs.alerts.rules import Comparator, Limit

MICROS: Final = 1_000_000


def breach_start(blocks: Blocks, limit: Limit, *, until: int) -> int | None:
    """Return the time of the first sample of the present breach, in µs since 1970.

    None if the newest block is within the limit, or the breach is shorter than the limit requires.

    Args:
        blocks: ``[N]`` over µs since 1970, in order.
        limit: The limit and the duration for which it must be exceeded.
        until: Time until which the last sample holds.
    """
    odd: NDArray[np.bool_] = blocks["nans"] + blocks["infinities"] > 0
    beyond: NDArray[np.bool_]
    if limit.threshold is None:
        beyond = odd & (blocks["count"] == 0)
    else:
        # Comparisons with NaN (blocks without finite values) are false.
        least, most = blocks["min"], blocks["max"]
        is_beyond: dict[Comparator, NDArray[np.bool_]] = {
            Comparator.ABOVE: least > limit.threshold,
            Comparator.AT_LEAST: least >= limit.threshold,
            Comparator.BELOW: most < limit.threshold,
            Comparator.AT_MOST: most <= limit.threshold,
        }
        beyond = is_beyond[limit.comparator] & ~odd
    if not len(beyond) or not beyond[-1]:
        return None
    within = np.flatnonzero(~beyond)
    began = int(blocks["x_first"][within[-1] + 1 if len(within) else 0])
    return began if until - began >= limit.for_seconds * MICROS else None
