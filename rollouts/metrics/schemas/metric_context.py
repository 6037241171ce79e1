"""Schemas of the context of a chart point."""

from datetime import datetime
from typing import Literal

from msgspec import Struct


class ContextVersion(Struct, frozen=True, kw_only=True):
    """The newest weights at that time."""

    id: int
    epoch: int
    step: int
    published_at: datetime


class ContextBatch(Struct, frozen=True, kw_only=True):
    """A batch leased around that time."""

    id: str
    ordinal: int
    kind: Literal["groups", "fragments"]
    state: Literal["leased", "returned", "quarantined", "confirmed", "dropped"]
    trainer: str | None
    items: int
    epoch: int
    policy_step: int
    leased_at: datetime
    lease_expires_at: datetime
    settled_at: datetime | None
    with_trainer: bool
    """Whether a trainer held it while the samples of the point arrived."""


class MetricContext(Struct, frozen=True, kw_only=True):
    """Context of a run while the samples of a chart point arrived."""

    began_at: datetime
    """Arrival of the first sample."""
    ended_at: datetime
    """Arrival of the last sample."""
    step: int
    """Train step of the last sample."""
    amount: int
    """Tokens served by then, or env steps of a fleet run."""
    version: ContextVersion | None
    """Null: no version was published by then."""
    handed_out: int
    """Number of batches leased in between."""
    batches: list[ContextBatch]
    """The newest of these batches and the one before them, newest first."""
