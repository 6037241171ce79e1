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
    """The ledger of a run; all counts are of one moment."""

    groups: KindLedger
    fragments: KindLedger
    sequences: KindLedger
    """The same groups, counted in sequences: the unit of batches and thresholds."""
    expired: int
    """Sequences or fragments of expired leases. They are a part of `leased`, held by no trainer
    and leased again first."""
    truncated: int
    """Groups accepted with sequences truncated to `max_token_len`; dropped ones are `overlong`."""
    refused: int
    """Refused pushes of environments and refused fragments of a fleet, not part of `accepted`."""
    problem: str
    """Mismatch found by the last comparison of the counts with the rows; empty if none."""
