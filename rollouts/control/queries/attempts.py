"""Queries for the incarnations of a fleet's workers."""

from rollouts.control.models import FleetWorker, WorkerAttempt
from rollouts.control.schemas.attempts import AttemptRow

_LIVE = ("node", "pid", "env_steps", "fragments_sent")


def attempts(
    run_id: int, *, worker: int | None, before: int | None, limit: int
) -> list[AttemptRow]:
    """Return incarnations of a run's workers, newest first.

    Args:
        run_id: Id of the run.
        worker: Index of a single worker; None for all.
        before: Only incarnations with a smaller id.
        limit: Maximum number of rows.
    """
    found = WorkerAttempt.objects.filter(fleet__run_id=run_id)
    if worker is not None:
        found = found.filter(worker=worker)
    if before is not None:
        found = found.filter(pk__lt=before)
    rows = list(found.order_by("-pk").values(*AttemptRow.__struct_fields__)[:limit])
    alive = [row["incarnation"] for row in rows if row["ended_at"] is None]
    reported = FleetWorker.objects.filter(fleet__run_id=run_id, incarnation__in=alive)
    known = {row.pop("incarnation"): row for row in reported.values("incarnation", *_LIVE)}
    return [AttemptRow(**{**row, **known.get(row["incarnation"], {})}) for row in rows]
