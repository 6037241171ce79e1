"""Shape what is answered about weights on their way to workers."""

from datetime import datetime

from msgspec import Struct


class DeliveryRow(Struct, frozen=True, kw_only=True):
    """When a worker knew of a version, had it, and acted with it; null: it never said so."""

    epoch: int
    step: int
    worker: int
    announced_at: datetime | None
    staged_at: datetime | None
    active_at: datetime | None


class Deliveries(Struct, frozen=True, kw_only=True):
    """How versions reached workers, newest version first, then by worker."""

    results: list[DeliveryRow]
