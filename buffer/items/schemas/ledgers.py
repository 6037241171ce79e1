"""API schemas of ledgers."""

from msgspec import Struct


class KindLedger(Struct, frozen=True, kw_only=True):
    """Items of one kind by state; `dropped` counts by reason."""

    accepted: int
    queued: int
    waiting: int
    leased: int
    """Items in unacknowledged batches: leased by a trainer, or with an expired lease."""
    served: int
    quarantined: int
    dropped: dict[str, int]
    balanced: bool


class LedgerPart(Struct, frozen=True, kw_only=True):
    """The ledger of a run on its live page."""

    groups: KindLedger
    fragments: KindLedger
    truncated: int
    """Groups accepted with truncated sequences."""
    problem: str
    """Mismatch found by the last audit; empty if none."""
