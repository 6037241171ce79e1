"""Let groups of other sizes than their environment's wait until they complete one another.

A group that is smaller than its environment's `group_size` waits; when waiting groups of the
environment sum exactly to `group_size`, they go to the queue together. A larger one could never
be completed and goes to the queue at once. Sizes that never sum would wait for ever: once
`MOST_WAITING` groups wait, the oldest goes to the queue as it is, whose batches are filled
exactly from any sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from buffer.items.rules.exact_fill import exact_fill

MOST_WAITING: Final = 1024
"""Groups of one environment that wait; every push of another reads them."""


@dataclass(slots=True, kw_only=True)
class WaitingGroups:
    """Waiting groups of one environment, oldest first, as (key, sequences)."""

    group_size: int
    waiting: list[tuple[int, int]] = field(default_factory=list)

    def waits(self, sequences: int) -> bool:
        """Return whether a group of this size has to wait for others."""
        return sequences < self.group_size

    def add(self, key: int, sequences: int) -> list[int]:
        """Take one group in; return the keys of those that wait no longer, oldest first."""
        self.waiting.append((key, sequences))
        places = complete([size for _, size in self.waiting], group_size=self.group_size)
        if not places and len(self.waiting) > MOST_WAITING:
            places = [0]
        released = [self.waiting[place][0] for place in places]
        gone = set(places)
        self.waiting = [item for place, item in enumerate(self.waiting) if place not in gone]
        return released

    @property
    def sequences(self) -> int:
        """Sequences that wait."""
        return sum(size for _, size in self.waiting)


def complete(sizes: Sequence[int], *, group_size: int) -> list[int]:
    """Return the places of groups that sum exactly to `group_size`; empty when none do.

    First come, first taken while it fits; if that does not sum exactly, the oldest exact subset.
    """
    places, total = [], 0
    for place, size in enumerate(sizes):
        if total + size <= group_size:
            places.append(place)
            total += size
    if total == group_size:
        return places
    fill = exact_fill(sizes, behind={}, target=group_size)
    return fill.chosen if fill else []
