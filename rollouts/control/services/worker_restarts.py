"""Replacement of single workers of a fleet."""

from datetime import datetime

from django.db import transaction
from django.db.models import F

from rollouts.control.schemas.workers import WorkerRestart
from rollouts.control.services.worker_placement import WorkerNotThere, placed_worker
from runs.events.services import record_event
from web.live.announcements import announce


@transaction.atomic
def restart_worker(
    *, run_id: int, index: int, body: WorkerRestart, actor: str, now: datetime
) -> None:
    """Request the replacement of a worker; repeated calls for the same one change nothing.

    The worker first sends its complete fragments; steps of incomplete ones are counted as lost.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, the worker is cordoned, or no fleet runs.
    """
    seat = placed_worker(run_id, index)
    mine = seat.held_by(body.incarnation)
    if mine.exclude(cordoned_at=None).exists():
        raise WorkerNotThere(f"worker {index} is cordoned: lift the cordon to start a new one")
    new = mine.exclude(restart_of=F("incarnation"))
    if new.update(restart_of=body.incarnation, restart_reason=body.reason):
        record_event(
            run_id=run_id,
            kind="worker_restart_asked",
            message=f"requested a replacement of worker {index}",
            actor=actor,
            reason=body.reason,
            now=now,
        )
        announce(run_id, "operator_requests", "fleet")
    else:
        seat.demand(body.incarnation)
