"""Pause rule of producers, shared by handlers and the platform."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

RESUME_FRACTION: Final = 0.5
"""Resume threshold as a fraction of the pause threshold."""


class HandlerState(StrEnum):
    """Whether a rollout handler produces groups."""

    RUNNING = "running"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRule:
    """Two thresholds at which producers pause and resume; the gap prevents flapping.

    Producers pause above ``off_policy_tolerance · batch_size`` queued sequences, resume at or below
    `resume_fraction` of that (at one batch, if that is more), and keep their state in between.
    """

    batch_size: int
    """Sequences per train step."""
    off_policy_tolerance: float = 3.0
    """Number of batches that may wait in the queue."""
    resume_fraction: float = RESUME_FRACTION

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {self.batch_size}")
        if not self.off_policy_tolerance > 0:
            raise ValueError(f"off_policy_tolerance must be > 0, not {self.off_policy_tolerance}")
        if not 0 <= self.resume_fraction <= 1:
            raise ValueError(f"resume_fraction must be in 0..1, not {self.resume_fraction}")

    @property
    def pause_above(self) -> float:
        """Queued sequences above which producers pause."""
        return self.off_policy_tolerance * self.batch_size

    @property
    def resume_at(self) -> float:
        """Queued sequences at or below which producers resume.

        At least one batch: a trainer leaves less than one batch in the queue, and producers with a
        lower threshold would never resume.
        """
        lower = self.resume_fraction * self.pause_above
        return min(self.pause_above, max(lower, float(self.batch_size)))

    def state_after(
        self, state: HandlerState, *, queued: float, paced: bool = False
    ) -> HandlerState:
        """Return the next state for a queue of `queued` sequences.

        Args:
            state: Current state of the handler.
            queued: Length of the queue as reported by the server.
            paced: Whether the server applies both thresholds for all environments together and
                reports this one's share; the share may then be filled.
        """
        if paced:
            has_room = queued < self.pause_above
            return HandlerState.RUNNING if has_room else HandlerState.PAUSED
        if queued > self.pause_above:
            return HandlerState.PAUSED
        if queued <= self.resume_at:
            return HandlerState.RUNNING
        return state
