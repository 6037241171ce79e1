"""Requests for the thread stacks of a worker."""

import uuid
from datetime import datetime
from typing import Final

from django.db import transaction

from rollouts.control.models import LogRequest
from rollouts.control.schemas.workers import RequestStacks
from rollouts.control.services.logs import SHARED_FOR
from rollouts.control.services.worker_placement import placed_worker
from rollouts.fleet.process.logs import LINES_AT_MOST
from runs.events.services import record_event
from web.live.announcements import announce

KIND: Final = "stacks"


@transaction.atomic
def request_stacks(
    *, run_id: int, index: int, body: RequestStacks, actor: str, now: datetime
) -> None:
    """Request the thread stacks of a worker; a recent unanswered request is reused.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, or no fleet.
    """
    placed_worker(run_id, index).demand(body.incarnation)
    started = {"lines": LINES_AT_MOST, "asked_at": now, "incarnation": body.incarnation}
    row, is_new = LogRequest.objects.get_or_create(
        run_id=run_id, kind=KIND, worker=index, slot=None, defaults=started
    )
    row = LogRequest.objects.select_for_update().get(pk=row.pk)
    waits = row.answered_at is None or row.answered_at < row.asked_at
    is_same = row.incarnation == body.incarnation
    if not is_new and waits and is_same and now - row.asked_at <= SHARED_FOR:
        return
    if not is_new:
        row.request, row.asked_at, row.incarnation = uuid.uuid4(), now, body.incarnation
        row.content, row.note = [], ""
        row.save(update_fields=["request", "asked_at", "incarnation", "content", "note"])
    record_event(
        run_id=run_id,
        kind="worker_stacks_asked",
        message=f"requested the thread stacks of worker {index}",
        actor=actor,
        reason=body.reason,
        now=now,
        details={"worker": index, "incarnation": body.incarnation},
    )
    announce(run_id, "operator_requests")
