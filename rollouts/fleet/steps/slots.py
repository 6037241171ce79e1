"""Env slots of a worker: a queue, and receivers of their events."""

from collections import deque
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import InfoWindow
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.steps.env_messages import Ready, Recorded, Stepped

Slots: TypeAlias = NDArray[np.intp]
"""Indices of different slots, ``[N]``, in any order."""


class SlotQueue:
    """FIFO queue of slots. Slots added together stay one array and cost as much as a single slot.

    Callers must not add a slot that is already in the queue.
    """

    def __init__(self) -> None:
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
        kept = [(since, slots[slots != slot]) for since, slots in self._parts]
        self._parts = deque((since, slots) for since, slots in kept if len(slots))
        self._count = sum(len(slots) for _, slots in self._parts)


class PoolListener(Protocol):
    """Receiver of slot events."""

    def introduced(self, ready: Ready) -> None:
        """Handle the spaces announced by a process."""

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Handle a new environment that waits for its first action."""

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Handle stepped environments; `slots` are the slots of the rows of `came`."""

    def recorded(self, slot: int, came: Recorded) -> None:
        """Handle the end of a recorded episode."""

    def reported_info(self, window: InfoWindow) -> None:
        """Handle numeric values of the environments' `info`."""

    def lost(self, slot: int) -> None:
        """Handle the loss of a slot's environment, possibly in mid-episode."""

    def given_up(self, slot: int) -> None:
        """Handle that a lost slot gets no further environment."""


class ProgressHandler(Protocol):
    """Receiver of steps that also decides which slots may continue."""

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Handle the start of an episode in a new environment."""

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Handle the N results in `came` of the last actions of ``slots [N]``."""

    def acted(
        self, slots: Slots, decision: Decision, version: tuple[int, int], state: State
    ) -> None:
        """Handle actions chosen for `slots` by `version`; `state` is the previous state, by row."""

    def aborted(self, slot: int) -> None:
        """Handle the loss of a slot's environment, which ends its episode."""

    def given_up(self, slot: int) -> None:
        """Handle that an aborted slot gets no further episode."""

    def reported_info(self, window: InfoWindow) -> None:
        """Handle numeric values of the environments' `info`."""

    def admitted(self, slots: Slots) -> Slots:
        """Return the subset of `slots` that may act on their observation now."""
