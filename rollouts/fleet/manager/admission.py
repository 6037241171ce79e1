"""Split the room in a run's buffer among the workers that may start fragments.

A credit is the right to start one fragment. It is spent when a slot acts on a fragment's first
step and given back when the platform has answered for the fragment.

Invariant: credits that are out never exceed what the platform said it would still take in, as
far as the manager can know; where it cannot, it errs towards fewer.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final

AHEAD_SECONDS: Final = 0.5
"""For how long a worker's credits should last; it is asked ten times a second, sometimes late."""


class Pace:
    """How many items a second a worker has finished lately."""

    WINDOW_SECONDS: Final = 1.0
    """Environments in step finish theirs together: a shorter look sees none, or all."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.per_second = 0.0
        self._since: tuple[float, int] | None = None

    def note(self, finished: int, now: float) -> None:
        """Hear how many it has `finished` in all; fewer than before begin anew."""
        if self._since is None or finished < self._since[1]:
            self.per_second, self._since = 0.0, (now, finished)
            return
        seconds = now - self._since[0]
        if seconds >= self.WINDOW_SECONDS:
            self.per_second = (finished - self._since[1]) / seconds
            self._since = (now, finished)


def wanted(*, at_once: int, unspent: int, per_second: float) -> int:
    """Return how many further credits a worker could use now.

    Two for each item that it fills at a time, so that none waits for the next answer; more for
    one that finishes many in between.

    Args:
        at_once: Items that it fills at a time.
        unspent: Credits that it has.
        per_second: Items that it finishes a second.
    """
    return max(0, max(2 * at_once, ceil(per_second * AHEAD_SECONDS)) - unspent)


def room(*, admission_remaining: int, accepted_since: int, outstanding: int) -> int:
    """Return how many credits may be granted now.

    Args:
        admission_remaining: Fragments the buffer would still take, as last heard.
        accepted_since: Fragments the platform has accepted from this fleet since then.
        outstanding: Credits that are out: unspent, being filled, or waiting to be sent.
    """
    return max(0, admission_remaining - accepted_since - outstanding)


def share_out(free: int, wanted: Sequence[int]) -> list[int]:
    """Return how many of `free` credits each worker gets, never more than it wants.

    Shares differ by at most one unless a worker wants less; what is left over by the
    modest goes to the others, the earliest first.

    Args:
        free: Credits to give away, 0 or more.
        wanted: Credits each worker could use, ``[workers]``.
    """
    shares = [0] * len(wanted)
    hungry = [index for index, want in enumerate(wanted) if want > 0]
    while free > 0 and hungry:
        each = max(1, free // len(hungry))
        for index in hungry:
            given = min(each, wanted[index] - shares[index], free)
            shares[index] += given
            free -= given
        hungry = [index for index in hungry if shares[index] < wanted[index]]
    return shares
