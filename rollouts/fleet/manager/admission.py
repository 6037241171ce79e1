"""Distribution of the free space in a run's buffer among the workers that may start fragments.

A credit is the right to start one fragment. It is spent when a slot acts on a fragment's first
step, and returned when the platform has accepted or rejected the fragment.

Invariant: outstanding credits never exceed the space that the platform reported, as far as the
manager knows. If it is uncertain, it grants fewer.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final

AHEAD_SECONDS: Final = 0.5
"""Time that a worker's credits should last. Workers are polled ten times a second, sometimes late.
"""


class Pace:
    """Recent throughput of a worker, in items per second."""

    WINDOW_SECONDS: Final = 1.0
    """Concurrent environments finish items together: a shorter window would see none, or all."""

    def __init__(self) -> None:
        self.per_second = 0.0
        self._since: tuple[float, int] | None = None

    def note(self, finished: int, now: float) -> None:
        """Record the total number of items `finished`; a smaller number than before starts over."""
        if self._since is None or finished < self._since[1]:
            self.per_second, self._since = 0.0, (now, finished)
            return
        seconds = now - self._since[0]
        if seconds >= self.WINDOW_SECONDS:
            self.per_second = (finished - self._since[1]) / seconds
            self._since = (now, finished)


def demand(*, at_once: int, unspent: int, per_second: float) -> int:
    """Return the number of further credits that a worker can use now.

    Two for each item in progress, so that none waits for the next grant; more for workers that
    finish many items between two grants.

    Args:
        at_once: Number of items in progress.
        unspent: Credits that the worker holds.
        per_second: Items that it finishes per second.
    """
    return max(0, max(2 * at_once, ceil(per_second * AHEAD_SECONDS)) - unspent)


def room(*, admission_remaining: int, accepted_since: int, outstanding: int) -> int:
    """Return the number of credits that may be granted now.

    Args:
        admission_remaining: Free space of the buffer in fragments, as last reported.
        accepted_since: Fragments of this fleet that the platform has accepted since then.
        outstanding: Granted credits that are unspent, in progress, or waiting to be sent.
    """
    return max(0, admission_remaining - accepted_since - outstanding)


def share_out(free: int, demands: Sequence[int]) -> list[int]:
    """Return how many of `free` credits each worker gets, never more than its part of `demands`.

    Shares differ by at most one unless a worker wants less; its remainder goes to the others,
    earliest first.
    """
    shares = [0] * len(demands)
    unsatisfied = [index for index, want in enumerate(demands) if want > 0]
    while free > 0 and unsatisfied:
        each = max(1, free // len(unsatisfied))
        for index in unsatisfied:
            granted = min(each, demands[index] - shares[index], free)
            shares[index] += granted
            free -= granted
        unsatisfied = [index for index in unsatisfied if shares[index] < demands[index]]
    return shares
