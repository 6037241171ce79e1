"""List the fates of an item and the lives of a batch.

    waiting → queued → leased → served
                  ↖ quarantined ↙
         any of these but served → dropped

Every group and every fragment is in exactly one fate, and an item that is served or dropped
stays so. A batch is leased, comes back when its lease lapses, and ends confirmed or dropped; one
whose leases lapse again and again is quarantined until a person decides.
"""

from enum import StrEnum
from typing import Final


class ItemKind(StrEnum):
    """What a batch is made of."""

    GROUPS = "groups"
    FRAGMENTS = "fragments"


class Fate(StrEnum):
    """Where an accepted item is."""

    WAITING = "waiting"
    """A group of another size than its environment's, until others complete it."""
    QUEUED = "queued"
    LEASED = "leased"
    SERVED = "served"
    QUARANTINED = "quarantined"
    """In a batch that no trainer survived, until a person decides."""
    DROPPED = "dropped"


class DropReason(StrEnum):
    """Why an item will never be trained on."""

    STALE_VERSION = "stale_version"
    STALE_EPOCH = "stale_epoch"
    STALE_AGE = "stale_age"
    FUTURE = "future"
    CAPACITY = "capacity"
    INCOMPLETE = "incomplete"
    """The next fragment of its slot does not go on where it ends, so its chunk is never whole."""
    ZERO_VARIANCE = "zero_variance"
    KILLED = "killed"
    DRAINED = "drained"
    RESET = "reset"
    CORRUPT = "corrupt"
    """Its stored bytes are not those that came."""
    POISON = "poison"
    """A person discarded the quarantined batch that it was in."""
    DISCARDED = "discarded"
    """A person discarded it, or the batch that it was in after its lease had lapsed."""
    MUTED = "muted"
    """A person had muted its environment when it came in."""


class BatchState(StrEnum):
    """Where a batch is."""

    LEASED = "leased"
    RETURNED = "returned"
    """Its lease lapsed: it waits, whole, at the head of the queue."""
    QUARANTINED = "quarantined"
    """Its lease lapsed too often: it is served no more until a person releases or discards it."""
    CONFIRMED = "confirmed"
    DROPPED = "dropped"


OPEN: Final = frozenset({Fate.WAITING, Fate.QUEUED, Fate.LEASED, Fate.QUARANTINED})
IN_A_BATCH: Final = (Fate.LEASED, Fate.SERVED, Fate.QUARANTINED)
OPEN_BATCHES: Final = frozenset({BatchState.LEASED, BatchState.RETURNED})
UNSETTLED_BATCHES: Final = OPEN_BATCHES | {BatchState.QUARANTINED}
LAPSES_BEFORE_QUARANTINE: Final = 3
