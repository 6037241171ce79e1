"""Have one worker of a fleet replaced by a new one."""

from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import F

from rollouts.models import FleetWorker
from rollouts.wire import WorkerRestart
from runs.core.lifecycle import RunStatus
from runs.live import announce
from runs.services.events import record_event

WITH_FLEET: Final = (
    *(RunStatus.STARTING, RunStatus.RUNNING),
    *(RunStatus.PAUSED, RunStatus.DRAINING),
)


class WorkerNotFound(LookupError):
    """The run's fleet has no worker of that index."""


class WorkerNotThere(Exception):
    """The worker was replaced or cordoned since, or its fleet is gone."""


@transaction.atomic
def restart_worker(
    *, run_id: int, index: int, wanted: WorkerRestart, actor: str, now: datetime
) -> None:
    """Ask the fleet to replace a worker; asking again for the same one changes nothing.

    The worker sends what it can first; steps of fragments that it was filling are counted as lost.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
        WorkerNotThere: If the incarnation is not the one that is there, it is cordoned, or no
            fleet runs.
    """
    worker = FleetWorker.objects.filter(fleet__run_id=run_id, index=index)
    there = worker.values_list("incarnation", flat=True).first()
    if there is None:
        raise WorkerNotFound(f"the fleet has no worker {index}")
    mine = worker.filter(incarnation=wanted.incarnation, fleet__run__status__in=WITH_FLEET)
    mine = mine.exclude(fleet__incarnation="")
    if mine.exclude(cordoned_at=None).exists():
        raise WorkerNotThere(f"worker {index} is cordoned: lift the cordon, and another one comes")
    new = mine.exclude(restart_of=F("incarnation"))
    if new.update(restart_of=wanted.incarnation, restart_reason=wanted.reason):
        record_event(
            run_id=run_id,
            kind="worker_restart_asked",
            message=f"worker {index} is to be replaced",
            actor=actor,
            reason=wanted.reason,
            now=now,
        )
        announce(run_id, "errands", "fleet")
    elif not mine.exists():
        raise WorkerNotThere(
            f"worker {index} is {there} now"
            if there != wanted.incarnation
            else "the run has no fleet at present"
        )
