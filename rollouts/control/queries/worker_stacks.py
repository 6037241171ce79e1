"""Queries for the thread stacks of a worker."""

from datetime import datetime

from rollouts.control.models.fleets import LogRequest
from rollouts.control.queries.pending_commands import LOG_WANTED_FOR
from rollouts.control.schemas.workers import WorkerStacks


def worker_stacks(run_id: int, index: int, *, now: datetime) -> WorkerStacks:
    """Return the newest request for a worker's stacks, and its answer."""
    asked = LogRequest.objects.filter(run_id=run_id, kind="stacks", worker=index).first()
    if asked is None:
        return WorkerStacks(state="never", worker=index)
    is_answered = asked.answered_at is not None and asked.answered_at >= asked.asked_at
    is_over = now - asked.asked_at > LOG_WANTED_FOR
    return WorkerStacks(
        state="answered" if is_answered else "timeout" if is_over else "requested",
        worker=index,
        incarnation=asked.incarnation,
        asked_at=asked.asked_at,
        answered_at=asked.answered_at if is_answered else None,
        lines=asked.content if is_answered else [],
        node=asked.node if is_answered else "",
        process=asked.path if is_answered else "",
        note=asked.note if is_answered else "",
    )
