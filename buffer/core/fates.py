"""List the fates of an item and the lives of a batch.

    waiting → queued → leased → served
         any of the first three → dropped

Every group and every fragment is in exactly one fate, and an item that is served or dropped
stays so. A batch is leased, comes back when its lease lapses, and ends confirmed or dropped.
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
    DROPPED = "dropped"


class DropReason(StrEnum):
    """Why an item will never be trained on."""

    STALE_VERSION = "stale_version"
    STALE_EPOCH = "stale_epoch"
    FUTURE = "future"
    KILLED = "killed"
    DRAINED = "drained"
    RESET = "reset"


class BatchState(StrEnum):
    """Where a batch is."""

    LEASED = "leased"
    RETURNED = "returned"
    """Its lease lapsed: it waits, whole, at the head of the queue."""
    CONFIRMED = "confirmed"
    DROPPED = "dropped"


OPEN: Final = frozenset({Fate.WAITING, Fate.QUEUED, Fate.LEASED})
OPEN_BATCHES: Final = frozenset({BatchState.LEASED, BatchState.RETURNED})
