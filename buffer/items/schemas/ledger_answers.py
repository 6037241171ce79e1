"""Shape what is answered about where everything is, and which way that leans."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from buffer.items.schemas.ledgers import KindLedger


class QuantitySummary(Struct, frozen=True, kw_only=True):
    """Mean and quantiles; null where there is nothing to sum up."""

    mean: float | None
    p10: float | None
    p50: float | None
    p90: float | None


class BiasSide(Struct, frozen=True, kw_only=True):
    """Items of one fate; length in tokens of the longest sequence, or in env steps."""

    items: int
    length: QuantitySummary
    score: QuantitySummary
    environments: dict[str, int]


class BiasDistances(Struct, frozen=True, kw_only=True):
    """How far two sets of items are apart, 0 … 1; null where one of them is empty."""

    length: float | None
    score: float | None
    environment: float | None


class BiasAnswer(Struct, frozen=True, kw_only=True):
    """How what was dropped differs from what was served."""

    admitted: BiasSide
    dropped: BiasSide
    served: BiasSide
    dropped_against_served: BiasDistances
    served_against_admitted: BiasDistances
    verdict: str


class EnvironmentLedger(KindLedger, frozen=True, kw_only=True):
    """Where the items of one environment are."""

    kind: Literal["groups", "fragments"]
    env_id: int | None
    """Of groups; null when they came without one, and for fragments."""
    environment: str
    """Of fragments, by name."""


class LedgerAnswer(Struct, frozen=True, kw_only=True):
    """Where everything is that a run has accepted."""

    groups: KindLedger
    fragments: KindLedger
    environments: list[EnvironmentLedger]
    """The same for each environment; they add up to the two above."""
    audited_at: datetime | None
    """When the counts were last compared with the rows."""
    problem: str
    """What that found wrong; empty when nothing was."""
