"""Queries for the thread stacks of a worker."""

from datetime import datetime

from rollouts.control.models import LogRequest
from rollouts.control.queries.pending_commands import LOG_REQUEST_LIFETIME
from rollouts.control.schemas.workers import WorkerStacks


def worker_stacks(run_id: int, index: int, *, now: datetime) -> WorkerStacks:
    """Return the newest request for a worker's stacks, and its answer."""
    log_request = LogRequest.objects.filter(run_id=run_id, kind="stacks", worker=index).first()
    if log_request is None:
        return WorkerStacks(state="never", worker=index)
    is_answered = (
        log_request.answered_at is not None and log_request.answered_at >= log_request.asked_at
    )
    is_over = now - log_request.asked_at > LOG_REQUEST_LIFETIME
    return WorkerStacks(
        state="answered" if is_answered else "timeout" if is_over else "requested",
        worker=index,
        incarnation=log_request.incarnation,
        asked_at=log_request.asked_at,
        answered_at=log_request.answered_at if is_answered else None,
        lines=log_request.content if is_answered else [],
        node=log_request.node if is_answered else "",
        process=log_request.path if is_answered else "",
        note=log_request.note if is_answered else "",
    )
