"""Shape what was going on in a run at a point of one of its charts."""

from datetime import datetime
from typing import Literal

from msgspec import Struct


class MomentVersion(Struct, frozen=True, kw_only=True):
    """The newest weights of then."""

    id: int
    epoch: int
    step: int
    published_at: datetime


class MomentBatch(Struct, frozen=True, kw_only=True):
    """A batch that was handed out around then."""

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
    in_hand: bool
    """Some trainer had it while the samples of the point came in."""


class Moment(Struct, frozen=True, kw_only=True):
    """What was going on in a run while the samples of a point came in."""

    began_at: datetime
    """The first of the point's samples came in."""
    ended_at: datetime
    """The last one did."""
    step: int
    """Train step of the last one."""
    amount: int
    """Tokens served by then; env steps made, of a fleet run."""
    version: MomentVersion | None
    """Null: none was published by then."""
    handed_out: int
    """Batches that were handed out in between."""
    batches: list[MomentBatch]
    """Of these and the one before them the newest, newest first."""
