"""Failures of a lesson that leave the other lessons unaffected."""

from typing import NamedTuple


class LessonFailed(Exception):
    """A lesson returned no rollouts; `kind` is the kind of the event."""

    def __init__(self, kind: str, message: str, *, stops: bool = False) -> None:
        """Store the failure; `stops` if the lesson stops for the run, by its setting."""
        super().__init__(message)
        self.kind, self.stops = kind, stops


class SamplingStopped(Exception):
    """Sampling was stopped before all answers were complete."""


class Fault(NamedTuple):
    """A dropped part of a batch, or a problem that dropped nothing."""

    kind: str
    """``prompt_too_long``, ``tokenizer_unusable``, ``group_invalid``, ``group_missing``,
    ``rollout_failed``, ``metric_invalid``, ``row_invalid``, ``reward_failed``,
    ``reward_timeout``, ``reward_invalid``, ``tool_failed``."""
    message: str
