"""States of the problems of lessons, from their assignment to the batch that trains on them.

    leased → answered → trained
      ↑ ↓       ↓          ↓ (the trainer resumed from an older version)
    returned  ←─┴──────────┘
    leased, returned, answered → skipped

Every assigned problem is in one state. A returned one is assigned again before new ones.
"""

from enum import StrEnum
from typing import Final, NamedTuple

MOST_ATTEMPTS: Final = 3
"""Attempts after which a problem that is lost again is skipped."""


class ProblemState(StrEnum):
    """State of an assigned problem."""

    LEASED = "leased"
    """A worker samples it, or has not delivered its group yet."""
    RETURNED = "returned"
    """It waits to be assigned again."""
    ANSWERED = "answered"
    """Its group is in the buffer."""
    TRAINED = "trained"
    """A trainer has acknowledged the batch of its group."""
    SKIPPED = "skipped"
    """It has no group in this pass, for the reason that it names."""


UNFINISHED: Final = (ProblemState.LEASED, ProblemState.RETURNED)
OPEN: Final = (*UNFINISHED, ProblemState.ANSWERED)
DELIVERED: Final = (ProblemState.ANSWERED, ProblemState.TRAINED)

WORKER_LOST: Final = "worker_lost"
"""The worker ended, or no longer has the problem."""
RESUMED: Final = "resumed"
"""The trainer resumed from a version that was not trained on the group."""
FINAL: Final = frozenset(
    {
        *("prompt_too_long", "tokenizer_unusable"),
        *("zero_variance", "overlong", "muted"),
        *("discarded", "poison", "killed", "drained"),
    }
)
"""Reasons that another attempt meets again, or that a rule or a person decided."""
OUTAGES: Final = frozenset({"inference_failed"})
"""Reasons that count as an attempt only if other groups arrive meanwhile."""
UNCOUNTED: Final = frozenset({"new_epoch", "stale_epoch", "reset", RESUMED})
"""Reasons on the side of the trainer; they do not count as attempts."""


class Loss(NamedTuple):
    """State of a problem after its group was lost."""

    state: ProblemState
    attempts: int


def after_loss(reason: str, *, attempts: int, others_arrive: bool) -> Loss:
    """Return the state of a problem whose group was lost.

    Args:
        reason: Reason of the loss.
        attempts: Number of times it was assigned, at least 1.
        others_arrive: Whether a group of the run has arrived since its last assignment.
    """
    if reason in FINAL:
        return Loss(ProblemState.SKIPPED, attempts)
    if reason in UNCOUNTED:
        return Loss(ProblemState.RETURNED, 0)
    if reason in OUTAGES and not others_arrive:
        return Loss(ProblemState.RETURNED, attempts - 1)
    is_last = attempts >= MOST_ATTEMPTS
    return Loss(ProblemState.SKIPPED if is_last else ProblemState.RETURNED, attempts)
