"""Answers to score, and failures of reward functions."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

FailureKind = Literal["reward_failed", "reward_timeout", "reward_invalid"]


class Answered(Struct, frozen=True, array_like=True):
    """An answer of the policy, with its problem."""

    prompt: str
    response: str
    """Last turn of the policy."""
    answer: str
    """Expected answer; empty for none."""
    row: Mapping[str, Any]


class RewardFailed(Exception):
    """A reward function returned no reward; `kind` is the kind of the event."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RewardUnusable(Exception):
    """A reward function cannot be built; `kind` is the kind of the event."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
