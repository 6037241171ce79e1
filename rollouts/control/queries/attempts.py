"""Read what became of the processes that a fleet's workers have been."""

from rollouts.control.models.attempts import WorkerAttempt
from rollouts.control.models.fleets import FleetWorker
from rollouts.control.schemas.attempts import AttemptRow

_LIVE = ("node", "pid", "env_steps", "fragments_sent")


def attempts(run_id: int, *, worker: int | None, limit: int) -> list[AttemptRow]:
    """Return incarnations of a run's workers, newest first.

    Args:
        run_id: Of the run.
        worker: Index of the only worker to tell of; None for all.
        limit: Rows at most.
    """
    found = WorkerAttempt.objects.filter(fleet__run_id=run_id)
    if worker is not None:
        found = found.filter(worker=worker)
    rows = list(found.order_by("-pk").values(*AttemptRow.__struct_fields__)[:limit])
    alive = [row["incarnation"] for row in rows if row["ended_at"] is None]
    reported = FleetWorker.objects.filter(fleet__run_id=run_id, incarnation__in=alive)
    known = {row.pop("incarnation"): row for row in reported.values("incarnation", *_LIVE)}
    return [AttemptRow(**{**row, **known.get(row["incarnation"], {})}) for row in rows]
