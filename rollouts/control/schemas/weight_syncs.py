"""Shape what is answered about weights on their way to workers."""

from datetime import datetime

from msgspec import Struct

from runs.wire import PolicyVersionRow


class DeliveryRow(Struct, frozen=True, kw_only=True):
    """When a worker knew of a version, had it, and acted with it; null: it never said so."""

    epoch: int
    step: int
    worker: int
    announced_at: datetime | None
    staged_at: datetime | None
    active_at: datetime | None


class WeightsOnTheWay(Struct, frozen=True, kw_only=True):
    """How far the newest weights of a run have come; its workers each, its fleet tells."""

    newest: PolicyVersionRow | None
    acting_step: int
    """Version that workers are to act with: the newest, or the one that is pinned."""
    order: int
    """Number of the newest order about weights; 0: there was none."""
    announced: int
    """Workers that know of the newest version."""
    staged: int
    """Workers that have it."""
    active: int
    """Workers that act with it."""
    told_at: datetime | None
    """When any worker last came further with one of the newest few versions."""


class Deliveries(Struct, frozen=True, kw_only=True):
    """How versions reached workers, newest version first, then by worker."""

    results: list[DeliveryRow]
