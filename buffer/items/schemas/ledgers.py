"""Shape where the items of a run are."""

from msgspec import Struct


class KindLedger(Struct, frozen=True, kw_only=True):
    """Where the items of one kind are; `dropped` counts by reason."""

    accepted: int
    queued: int
    waiting: int
    leased: int
    """In a batch that is not acknowledged: a trainer holds it, or its lease expired."""
    served: int
    quarantined: int
    dropped: dict[str, int]
    balanced: bool


class LedgerPart(Struct, frozen=True, kw_only=True):
    """The ledger of a run as its live page shows it."""

    groups: KindLedger
    fragments: KindLedger
    problem: str
    """What the last audit found wrong; empty when nothing was."""
