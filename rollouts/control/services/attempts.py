"""Records of worker incarnations: their beginnings, and the reasons for their ends."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from rolldeck.wire import WorkerEnding, WorkerReport
from rollouts.control.models import Fleet, FleetWorker, WorkerAttempt

ATTEMPTS_KEPT: Final = 1000
"""Number of ended attempts kept per fleet, newest first."""


def start_attempts(fleet: Fleet, workers: Iterable[WorkerReport], *, now: datetime) -> None:
    """Start an attempt for each of `workers`; existing attempts stay unchanged."""
    begun = [
        WorkerAttempt(
            fleet=fleet, worker=worker.index, incarnation=worker.incarnation, started_at=now
        )
        for worker in workers
    ]
    if begun:
        WorkerAttempt.objects.bulk_create(begun, ignore_conflicts=True)


def end_attempts(fleet: Fleet, endings: Iterable[WorkerEnding], *, now: datetime) -> None:
    """End attempts with the reported data; some were never reported while they were alive."""
    endings = list(endings)
    for ending in endings:
        known = msgspec.structs.asdict(ending)
        known["worker"] = known.pop("index")
        WorkerAttempt.objects.update_or_create(
            fleet=fleet,
            incarnation=known.pop("incarnation"),
            defaults={**known, "ended_at": now},
            create_defaults={**known, "ended_at": now, "started_at": now},
        )
    if endings:
        _delete_old(fleet)


def end_all(fleet: Fleet, *, reason: str, now: datetime) -> None:
    """End every attempt of a fleet whose manager is gone, with its last reported data."""
    last = FleetWorker.objects.filter(fleet=fleet, incarnation=OuterRef("incarnation"))
    figures = ("node", "pid", "env_steps", "fragments_sent")
    WorkerAttempt.objects.filter(fleet=fleet, ended_at=None).update(
        ended_at=now,
        reason=reason,
        **{name: Coalesce(Subquery(last.values(name)[:1]), F(name)) for name in figures},
    )
    _delete_old(fleet)


def _delete_old(fleet: Fleet) -> None:
    ended = WorkerAttempt.objects.filter(fleet=fleet).exclude(ended_at=None)
    newest = ended.order_by("-pk").values_list("pk", flat=True)
    oldest_kept = newest[ATTEMPTS_KEPT - 1 : ATTEMPTS_KEPT].first()
    if oldest_kept is not None:
        ended.filter(pk__lt=oldest_kept).delete()
