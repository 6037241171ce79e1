"""States of items and batches.

    waiting → queued → leased → served
                  ↖ quarantined ↙
         any of these but served → dropped

Every group and every fragment is in exactly one state; served and dropped are final. A batch is
leased, returns to the queue when its lease expires, and ends confirmed or dropped. A batch whose
leases expire repeatedly is quarantined until an operator releases or discards it.
"""

from enum import StrEnum
from typing import Final
from uuid import UUID

from web.rules.errors import Conflict, NotFound


class ItemKind(StrEnum):
    """Kind of items in a batch."""

    GROUPS = "groups"
    FRAGMENTS = "fragments"


class ItemState(StrEnum):
    """State of an accepted item."""

    WAITING = "waiting"
    """A group smaller than its environment's group size, until others complete it."""
    QUEUED = "queued"
    LEASED = "leased"
    SERVED = "served"
    QUARANTINED = "quarantined"
    """In a batch whose leases expired repeatedly, until an operator decides."""
    DROPPED = "dropped"


class DropReason(StrEnum):
    """Reason why an item will not be trained on."""

    STALE_VERSION = "stale_version"
    STALE_EPOCH = "stale_epoch"
    STALE_AGE = "stale_age"
    FUTURE = "future"
    CAPACITY = "capacity"
    INCOMPLETE = "incomplete"
    """The next fragment of its slot does not continue it, so its chunk is never complete."""
    ZERO_VARIANCE = "zero_variance"
    KILLED = "killed"
    DRAINED = "drained"
    RESET = "reset"
    CORRUPT = "corrupt"
    """Its stored bytes fail their checksum."""
    POISON = "poison"
    """An operator discarded its quarantined batch."""
    DISCARDED = "discarded"
    """An operator discarded it, or its batch after the lease expired."""
    MUTED = "muted"
    """Its environment was muted when it arrived."""
    OVERLONG = "overlong"
    """A sequence is longer than the run's `max_token_len`."""
    SHORT_GROUP = "short_group"
    """Sequences have no score, and the others are too few or dropped with them."""
    REPEATED = "repeated"
    """Another group has answered its problem of a lesson."""


DROP_CAUSES: Final[dict[str, str]] = {
    DropReason.STALE_VERSION: "more policy versions behind than max_staleness allows",
    DropReason.STALE_EPOCH: "sampled with weights of an earlier trainer session or run",
    DropReason.STALE_AGE: "queued for longer than max_age_seconds",
    DropReason.FUTURE: "of a policy version that is later than the run's",
    DropReason.CAPACITY: "evicted from the replay buffer, which was full",
    DropReason.INCOMPLETE: "never part of a complete chunk",
    DropReason.ZERO_VARIANCE: "with equal scores, so without a gradient",
    DropReason.SHORT_GROUP: "with sequences that have no score",
    DropReason.REPEATED: "of a problem that another group has answered",
    DropReason.KILLED: "the run was killed",
    DropReason.DRAINED: "the run ended before it was leased",
    DropReason.RESET: "the run was reset",
    DropReason.CORRUPT: "its stored bytes failed their checksum",
    DropReason.POISON: "an operator discarded its quarantined batch",
    DropReason.DISCARDED: "discarded by a user or a trainer",
    DropReason.MUTED: "its environment was muted",
    DropReason.OVERLONG: "with a sequence longer than max_token_len",
}
"""Causes in words, for one item or for many."""

STALE_REASONS: Final = frozenset(
    {DropReason.STALE_VERSION, DropReason.STALE_EPOCH, DropReason.STALE_AGE}
)


class BatchState(StrEnum):
    """State of a batch."""

    LEASED = "leased"
    RETURNED = "returned"
    """Its lease expired: it waits, unchanged, at the head of the queue."""
    QUARANTINED = "quarantined"
    """Its leases expired repeatedly; it is not served until an operator decides."""
    CONFIRMED = "confirmed"
    DROPPED = "dropped"


OPEN: Final = frozenset(
    {ItemState.WAITING, ItemState.QUEUED, ItemState.LEASED, ItemState.QUARANTINED}
)
IN_A_BATCH: Final = (ItemState.LEASED, ItemState.SERVED, ItemState.QUARANTINED)
OPEN_BATCHES: Final = frozenset({BatchState.LEASED, BatchState.RETURNED})
UNSETTLED_BATCHES: Final = OPEN_BATCHES | {BatchState.QUARANTINED}
EXPIRIES_BEFORE_QUARANTINE: Final = 3


class BatchNotFound(NotFound):
    """The run has no such batch."""


def batch_id_of(text: str) -> UUID:
    """Return a batch's id.

    Raises:
        BatchNotFound: If `text` is no id.
    """
    try:
        return UUID(text)
    except ValueError:
        raise BatchNotFound(f"batch {text!r} does not exist") from None


class TrainerNotRegistered(Conflict):
    """The requester is not registered as a trainer of the run."""

    code = "trainer_not_registered"
    title = "Register first"


class LeaseLost(Conflict):
    """The batch has been leased again or settled since this trainer leased it."""

    code = "lease_lost"
    title = "The lease is lost"


class OutOfOrder(Conflict):
    """The trainer still holds a batch that it received earlier."""

    code = "out_of_order"
    title = "An earlier batch is not acknowledged"


NO_ENVIRONMENT: Final = -1
"""Id of the virtual environment, of weight 1, that holds groups without an environment."""


def padded_share(*, tokens: int, sequences: int, longest_tokens: int) -> float | None:
    """Return the padded fraction of ``[sequences, longest_tokens]``; None if that is empty."""
    positions = sequences * longest_tokens
    return 1.0 - tokens / positions if positions else None
