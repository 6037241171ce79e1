"""Keep env slots in the order in which they came, many at a time."""

from collections import deque
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Slots: TypeAlias = NDArray[np.intp]
"""Indices of different slots, ``[N]``, in any order."""


class SlotQueue:
    """First in, first out. Slots that come together stay one array: they cost what one costs.

    A slot is in it once at most; its caller sees to that.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._parts: deque[tuple[float, Slots]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def oldest_at(self) -> float:
        """When the first of them came.

        Raises:
            IndexError: If it is empty.
        """
        return self._parts[0][0]

    def add(self, slots: Slots, now: float) -> None:
        """Put ``slots [N]`` behind the others."""
        if len(slots):
            self._parts.append((now, slots))
            self._count += len(slots)

    def take(self, most: int) -> Slots:
        """Return the oldest, up to `most`, in their order; they are no longer in it."""
        taken: list[Slots] = []
        room = min(most, self._count)
        self._count -= room
        while room:
            since, slots = self._parts.popleft()
            if len(slots) > room:
                self._parts.appendleft((since, slots[room:]))
                slots = slots[:room]
            taken.append(slots)
            room -= len(slots)
        return taken[0] if len(taken) == 1 else np.concatenate([np.empty(0, np.intp), *taken])

    def discard(self, slot: int) -> None:
        """Forget one slot; it may not be there."""
        kept = [(since, slots[slots != slot]) for since, slots in self._parts]
        self._parts = deque((since, slots) for since, slots in kept if len(slots))
        self._count = sum(len(slots) for _, slots in self._parts)
