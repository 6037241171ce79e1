"""Name what can go wrong with a lesson while the others go on."""

from typing import NamedTuple


class LessonFailed(Exception):
    """A lesson gave nothing; `kind` is the event that says so."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class SamplingStopped(Exception):
    """Sampling was asked to stop before its answers were there."""


class Fault(NamedTuple):
    """A part of a batch that was left out."""

    kind: str
    """``prompt_too_long``, ``tokenizer_unusable``, ``group_invalid``, ``group_missing``,
    ``rollout_failed``."""
    message: str
