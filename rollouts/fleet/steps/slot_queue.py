"""FIFO queue of env slots with operations on many slots at once."""

from collections import deque
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Slots: TypeAlias = NDArray[np.intp]
"""Indices of different slots, ``[N]``, in any order."""


class SlotQueue:
    """FIFO queue of slots. Slots added together stay one array and cost as much as a single slot.

    Callers must not add a slot that is already in the queue.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._parts: deque[tuple[float, Slots]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def oldest_at(self) -> float:
        """Time at which the oldest slots were added.

        Raises:
            IndexError: If the queue is empty.
        """
        return self._parts[0][0]

    def add(self, slots: Slots, now: float) -> None:
        """Append ``slots [N]``."""
        if len(slots):
            self._parts.append((now, slots))
            self._count += len(slots)

    def pop(self, most: int) -> Slots:
        """Remove and return the oldest slots, up to `most`, in order."""
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
        """Remove one slot if it is in the queue."""
        kept = [(since, slots[slots != slot]) for since, slots in self._parts]
        self._parts = deque((since, slots) for since, slots in kept if len(slots))
        self._count = sum(len(slots) for _, slots in self._parts)
