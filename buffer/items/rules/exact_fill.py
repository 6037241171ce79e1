"""Choose groups whose sizes sum exactly to a batch, oldest first.

Invariants: the chosen sizes sum to the target; no group is chosen twice; a group is skipped only
if no exact fill contains it together with the older chosen groups. The oldest prefix is therefore
taken if it sums exactly, and a group of an odd size never blocks the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Bound on the memory for sums: one bit set of target + 1 bits per group of the window.
WINDOW_BITS: Final = 1 << 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """A choice of groups: positions in the window, and counts by size behind it."""

    chosen: list[int]
    behind: dict[int, int]


def window_length(target: int) -> int:
    """Return the number of oldest groups weighed individually for `target` sequences."""
    return max(16, min(4096, WINDOW_BITS // (target + 1)))


def exact_fill(window: Sequence[int], *, behind: Mapping[int, int], target: int) -> Fill | None:
    """Return the first choice, oldest groups first, whose sizes sum to `target`, or None.

    Args:
        window: Sizes of the oldest groups, oldest first, in sequences; at most
            :func:`window_length` of them, unless a prefix sums exactly.
        behind: Number of younger groups of each size, queued behind the window.
        target: Sequences in the batch, at least 1.
    """
    prefix = oldest_prefix(window, target)
    if prefix is not None:
        return Fill(chosen=prefix, behind={})
    base = reachable_sums(behind, target)
    sums = [base]
    mask = (1 << (target + 1)) - 1
    for size in reversed(window):
        sums.append((sums[-1] | (sums[-1] << size if size <= target else 0)) & mask)
    sums.reverse()
    if not sums[0] >> target & 1:
        return None
    chosen = []
    rest = target
    for place, size in enumerate(window):
        if size <= rest and sums[place + 1] >> (rest - size) & 1:
            chosen.append(place)
            rest -= size
    return Fill(chosen=chosen, behind=_split(behind, rest))


def oldest_prefix(window: Sequence[int], target: int) -> list[int] | None:
    """Return the positions of the oldest groups if a prefix sums to `target`, else None."""
    total = 0
    for place, size in enumerate(window):
        total += size
        if total == target:
            return list(range(place + 1))
        if total > target:
            return None
    return None


def _parts(size: int, count: int, target: int) -> list[tuple[int, int]]:
    """Return (groups, sequences) parts whose subsets form every number of groups up to `count`."""
    count = min(count, target // size)
    parts = []
    times = 1
    while count > 0:
        take = min(times, count)
        parts.append((take, take * size))
        count -= take
        times *= 2
    return parts


def reachable_sums(counts: Mapping[int, int], target: int) -> int:
    """Return the bit set of the sums up to `target` that subsets of `counts` (by size) form."""
    mask = (1 << (target + 1)) - 1
    sums = 1
    for size, count in counts.items():
        for _, sequences in _parts(size, count, target):
            sums |= (sums << sequences) & mask
    return sums


def _split(counts: Mapping[int, int], target: int) -> dict[int, int]:
    """Return the number of groups of each size that sum to `target`, which must be reachable."""
    steps = [
        (size, times, sequences)
        for size, count in counts.items()
        for times, sequences in _parts(size, count, target)
    ]
    sums = [1]
    for _, _, sequences in steps:
        sums.append(sums[-1] | sums[-1] << sequences)
    taken: Counter[int] = Counter()
    for index in range(len(steps) - 1, -1, -1):
        if sums[index] >> target & 1:
            continue
        size, times, sequences = steps[index]
        taken[size] += times
        target -= sequences
    return dict(taken)
