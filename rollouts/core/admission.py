"""Split the room in a run's buffer among the workers that may start fragments.

A credit is the right to start one fragment. It is spent when a slot acts on a fragment's first
step and given back when the platform has answered for the fragment.

Invariant: credits that are out never exceed what the platform said it would still take in, as
far as the manager can know; where it cannot, it errs towards fewer.
"""

from collections.abc import Sequence


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
