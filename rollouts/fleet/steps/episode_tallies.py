"""Running totals of the current episode of each env slot."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.worker.episodes import Episode, Mode

NO_STEP = -2


class EpisodeTallies:
    """Return, length and last version of the running episode of S slots."""

    def __init__(
        self, *, slots: int, environment: str, discount: float, mode: Mode = "train"
    ) -> None:
        """Start before the first episode of every slot.

        Args:
            slots: S.
            environment: Spec of the slots' environment.
            discount: Factor of the discounted return, per env step.
            mode: Purpose of the episodes.
        """
        self._environment = environment
        self._mode: Mode = mode
        self._gamma = discount
        self.numbers = [0] * slots
        """Number of episodes started by each slot, ``[S]``."""
        self._return = np.zeros(slots)
        self._discounted = np.zeros(slots)
        self._discount = np.ones(slots)
        self._length = np.zeros(slots, dtype=np.int64)
        self._policy_step = np.full(slots, NO_STEP, dtype=np.int64)

    def begin(self, slot: int) -> int:
        """Start the slot's next episode and return its number, from 1."""
        self._clear(slot)
        self.numbers[slot] += 1
        return self.numbers[slot]

    def acted(self, slots: NDArray[np.intp], policy_step: int) -> None:
        """Record the version that acted last in ``slots [N]``."""
        self._policy_step[slots] = policy_step

    def add(self, slots: NDArray[np.intp], reward: NDArray[Any]) -> None:
        """Add one env step to each of ``slots [N]``, with ``reward [N]``."""
        discount = self._discount[slots]
        self._return[slots] = self._return[slots] + reward
        self._discounted[slots] = self._discounted[slots] + discount * reward
        self._discount[slots] = discount * self._gamma
        self._length[slots] = self._length[slots] + 1

    def has_steps(self, slot: int) -> bool:
        """Return whether the slot's episode has a step."""
        return bool(self._length[slot])

    def end(self, slot: int, outcome: Literal["terminated", "truncated", "aborted"]) -> Episode:
        """Return the slot's finished episode."""
        over = Episode(
            environment=self._environment,
            total_return=float(self._return[slot]),
            discounted_return=float(self._discounted[slot]),
            length=int(self._length[slot]),
            outcome=outcome,
            mode=self._mode,
            policy_step=int(self._policy_step[slot]),
            slot=slot,
            number=self.numbers[slot],
        )
        self._clear(slot)
        return over

    def _clear(self, slot: int) -> None:
        self._return[slot] = self._discounted[slot] = 0.0
        self._discount[slot] = 1.0
        self._length[slot] = 0
        self._policy_step[slot] = NO_STEP
