"""Schemas of the weight syncs API."""

from datetime import datetime

from msgspec import Struct

from runs.lifecycle.schemas import PolicyVersionRow
from web.rules.pages import Page


class WeightSyncRow(Struct, frozen=True, kw_only=True):
    """Times at which a worker was notified of, held, and used a version; null: not reported."""

    epoch: int
    step: int
    worker: int
    announced_at: datetime | None
    staged_at: datetime | None
    active_at: datetime | None


class WeightsProgress(Struct, frozen=True, kw_only=True):
    """Sync progress of a run's newest weights; the fleet API reports it by worker."""

    newest: PolicyVersionRow | None
    acting_step: int
    """Target version of the workers: the newest, or the pinned one."""
    order: int
    """Number of the newest weights command; 0: there was none."""
    announced: int
    """Number of workers notified of the newest version."""
    staged: int
    """Number of workers that hold it."""
    active: int
    """Number of workers that use it."""
    reported_at: datetime | None
    """Time of the last progress of any worker with one of the newest versions."""


class WeightSyncs(Page[WeightSyncRow], frozen=True, kw_only=True):
    """Weight syncs by worker, newest version first."""
