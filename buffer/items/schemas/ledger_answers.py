"""API schemas of the ledger and the selection bias."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from buffer.items.schemas.ledgers import KindLedger, LedgerPart


class QuantitySummary(Struct, frozen=True, kw_only=True):
    """Mean and quantiles; null without data."""

    mean: float | None
    p10: float | None
    p50: float | None
    p90: float | None


class BiasSide(Struct, frozen=True, kw_only=True):
    """Items in one state; length in tokens of the longest sequence, or in environment steps."""

    items: int
    length: QuantitySummary
    score: QuantitySummary
    environments: dict[str, int]


class BiasDistances(Struct, frozen=True, kw_only=True):
    """Distances between two sets of items, from 0 to 1; null if either is empty."""

    length: float | None
    score: float | None
    environment: float | None


class BiasAnswer(Struct, frozen=True, kw_only=True):
    """Differences between admitted, dropped and served items."""

    admitted: BiasSide
    dropped: BiasSide
    served: BiasSide
    dropped_against_served: BiasDistances
    served_against_admitted: BiasDistances
    summary: str


class EnvironmentLedger(KindLedger, frozen=True, kw_only=True):
    """Ledger of one environment."""

    kind: Literal["groups", "fragments"]
    env_id: int | None
    """Null for groups without an environment, and for fragments."""
    environment: str
    """Name of the environment, for fragments."""
    sequences: KindLedger
    """The same items in sequences; a fragment counts as one."""


class LedgerAnswer(LedgerPart, frozen=True, kw_only=True):
    """Ledger of a run: its accepted items by state, all of one moment."""

    environments: list[EnvironmentLedger]
    """Ledgers by environment; they add up to `groups` and `fragments`."""
    audited_at: datetime | None
    """Time of the last comparison of the counts with the rows."""
