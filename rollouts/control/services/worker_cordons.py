"""Keep one worker of a fleet out, and let it back in."""

from datetime import datetime

from django.db import transaction

from rollouts.control.schemas.workers import WorkerCordon, WorkerUncordon
from rollouts.control.services.worker_placement import seat_of
from runs.live import announce
from runs.services.events import record_event


@transaction.atomic
def cordon_worker(
    *, run_id: int, index: int, wanted: WorkerCordon, actor: str, now: datetime
) -> None:
    """Have a worker finish what it has begun, send it, and end; nobody takes its place.

    The cordon is of the seat: it holds for whoever is there when the fleet hears of it, and for
    every fleet of the run after that, until it is lifted. Asking again changes nothing.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
        WorkerNotThere: If the incarnation is not the one that is there, or no fleet runs.
    """
    seat = seat_of(run_id, index)
    mine = seat.held_by(wanted.incarnation)
    # Of two wishes the last stands: one that was to be replaced is kept out instead.
    changes = {"cordoned_by": actor, "cordon_reason": wanted.reason, "restart_of": ""}
    if mine.filter(cordoned_at=None).update(cordoned_at=now, **changes):
        record_event(
            run_id=run_id,
            kind="worker_cordon_asked",
            message=f"worker {index} is to be drained and kept out",
            actor=actor,
            reason=wanted.reason,
            now=now,
            details={"worker": index, "incarnation": wanted.incarnation},
        )
        announce(run_id, "errands", "fleet")
    else:
        seat.demand(wanted.incarnation)


@transaction.atomic
def uncordon_worker(
    *, run_id: int, index: int, wanted: WorkerUncordon, actor: str, now: datetime
) -> None:
    """Let a worker in again; one that still drains ends first. Asking again changes nothing.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
    """
    seat = seat_of(run_id, index)
    lifted = {"cordoned_at": None, "cordoned_by": "", "cordon_reason": ""}
    if seat.row.exclude(cordoned_at=None).update(**lifted):
        record_event(
            run_id=run_id,
            kind="worker_uncordon_asked",
            message=f"worker {index} is let in again",
            actor=actor,
            reason=wanted.reason,
            now=now,
            details={"worker": index},
        )
        announce(run_id, "errands", "fleet")
