"""Say when producers pause and go on: one rule for handlers and for the platform."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

RESUME_FRACTION: Final = 0.5
"""Of the mark at which producers pause, where they go on."""


class HandlerState(StrEnum):
    """Whether a rollout handler produces."""

    RUNNING = "running"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRule:
    """When producers stop and start again, with two marks because one would flap.

    Pauses above ``off_policy_tolerance · batch_size`` queued sequences, resumes at or below
    `resume_fraction` of that (at one batch, if that is more), and keeps its state in between.
    """

    batch_size: int
    """Sequences of one train step."""
    off_policy_tolerance: float = 3.0
    """Batches that may wait in the queue."""
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

        Never below one batch: a trainer leaves less than that behind, and producers that waited
        for still less would wait for ever.
        """
        lower = self.resume_fraction * self.pause_above
        return min(self.pause_above, max(lower, float(self.batch_size)))

    def state_after(
        self, state: HandlerState, *, queued: float, paced: bool = False
    ) -> HandlerState:
        """Return the state that follows `state` when `queued` sequences wait.

        Args:
            state: What the handler does.
            queued: As the server reports it.
            paced: The server keeps the two marks itself, for all environments together, and
                reports this one's share: then whatever leaves room may be used.
        """
        if paced:
            has_room = queued < self.pause_above
            return HandlerState.RUNNING if has_room else HandlerState.PAUSED
        if queued > self.pause_above:
            return HandlerState.PAUSED
        if queued <= self.resume_at:
            return HandlerState.RUNNING
        return state
