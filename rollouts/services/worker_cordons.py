"""Keep one worker of a fleet out, and let it back in."""

from datetime import datetime

from django.db import transaction

from rollouts.models import FleetWorker
from rollouts.services.worker_restarts import WITH_FLEET, WorkerNotFound, WorkerNotThere
from rollouts.wire import WorkerCordon, WorkerUncordon
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
    worker = FleetWorker.objects.filter(fleet__run_id=run_id, index=index)
    there = worker.values_list("incarnation", flat=True).first()
    if there is None:
        raise WorkerNotFound(f"the fleet has no worker {index}")
    mine = worker.filter(incarnation=wanted.incarnation, fleet__run__status__in=WITH_FLEET)
    mine = mine.exclude(fleet__incarnation="")
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
    elif not mine.exists():
        raise WorkerNotThere(
            f"worker {index} is {there} now"
            if there != wanted.incarnation
            else "the run has no fleet at present"
        )


@transaction.atomic
def uncordon_worker(
    *, run_id: int, index: int, wanted: WorkerUncordon, actor: str, now: datetime
) -> None:
    """Let a worker in again; one that still drains ends first. Asking again changes nothing.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
    """
    worker = FleetWorker.objects.filter(fleet__run_id=run_id, index=index)
    if not worker.exists():
        raise WorkerNotFound(f"the fleet has no worker {index}")
    lifted = {"cordoned_at": None, "cordoned_by": "", "cordon_reason": ""}
    if worker.exclude(cordoned_at=None).update(**lifted):
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
