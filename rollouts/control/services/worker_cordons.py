"""Cordons of single workers of a fleet."""

from datetime import datetime

from django.db import transaction

from rollouts.control.schemas.workers import WorkerCordon, WorkerUncordon
from rollouts.control.services.worker_placement import placed_worker
from runs.events.services import record_event
from web.live.announcements import announce


@transaction.atomic
def cordon_worker(
    *, run_id: int, index: int, body: WorkerCordon, actor: str, now: datetime
) -> None:
    """Drain a worker and end it, without a replacement.

    The cordon applies to the worker's index: to the incarnation that runs when the fleet receives
    it, and to every later fleet of the run, until it is lifted. Repeated calls change nothing.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, or no fleet.
    """
    seat = placed_worker(run_id, index)
    mine = seat.held_by(body.incarnation)
    # The last request wins: a worker to be replaced is cordoned instead.
    changes = {"cordoned_by": actor, "cordon_reason": body.reason, "restart_of": ""}
    if mine.filter(cordoned_at=None).update(cordoned_at=now, **changes):
        record_event(
            run_id=run_id,
            kind="worker_cordon_asked",
            message=f"cordoned worker {index}",
            actor=actor,
            reason=body.reason,
            now=now,
            details={"worker": index, "incarnation": body.incarnation},
        )
        announce(run_id, "operator_requests", "fleet")
    else:
        seat.demand(body.incarnation)


@transaction.atomic
def uncordon_worker(
    *, run_id: int, index: int, body: WorkerUncordon, actor: str, now: datetime
) -> None:
    """Lift a worker's cordon; a draining worker ends first. Repeated calls change nothing.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
    """
    seat = placed_worker(run_id, index)
    lifted = {"cordoned_at": None, "cordoned_by": "", "cordon_reason": ""}
    if seat.row.exclude(cordoned_at=None).update(**lifted):
        record_event(
            run_id=run_id,
            kind="worker_uncordon_asked",
            message=f"lifted the cordon of worker {index}",
            actor=actor,
            reason=body.reason,
            now=now,
            details={"worker": index},
        )
        announce(run_id, "operator_requests", "fleet")
