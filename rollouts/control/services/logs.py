"""Requests for the end of a fleet's log, and their answers.

A request is a row, one for each log ever requested; the fleet receives it with its commands.
Concurrent readers of one log share a request, and each answer replaces the previous one.
"""

import uuid
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F, Q

from rolldeck.operator_requests import LogLines
from rollouts.control.models import FleetWorker, LogRequest
from rollouts.fleet.process import logs
from web.live.announcements import announce
from web.rules.errors import NotFound

SHARED_FOR: Final = timedelta(seconds=5)
"""Age up to which an unanswered request serves further readers."""


class NoSuchLog(NotFound):
    """The fleet never had this worker or slot."""


class LogNotRequested(NotFound):
    """No request waits for this answer: it was answered before, or replaced by a new one."""


@transaction.atomic
def request_log(
    *, run_id: int, worker: int | None, slot: int | None, lines: int, now: datetime
) -> LogRequest:
    """Request the end of a log from the fleet; a recent unanswered request is reused.

    Raises:
        NoSuchLog: If the fleet has reported no such worker or slot.
    """
    _check_exists(run_id, worker, slot)
    row, _ = LogRequest.objects.get_or_create(
        run_id=run_id,
        kind="log",
        worker=worker,
        slot=slot,
        defaults={"lines": lines, "asked_at": now},
    )
    row = LogRequest.objects.select_for_update().get(pk=row.pk)
    waits = row.answered_at is None or row.answered_at < row.asked_at
    if waits and row.lines >= lines and now - row.asked_at <= SHARED_FOR:
        return row
    row.request, row.asked_at, row.lines = uuid.uuid4(), now, lines
    row.save(update_fields=["request", "asked_at", "lines"])
    announce(run_id, "operator_requests")
    return row


@transaction.atomic
def answer_log(*, run_id: int, request: uuid.UUID, answer: LogLines, now: datetime) -> None:
    """Store the fleet's answer, sanitized again because the sender is not trusted.

    Raises:
        LogNotRequested: If no request waits for it.
    """
    waits = Q(answered_at=None) | Q(answered_at__lt=F("asked_at"))
    taken = LogRequest.objects.filter(waits, run_id=run_id, request=request).update(
        answered_at=now,
        content=logs.clean_lines(answer.lines),
        node=logs.clean(answer.node),
        path=logs.clean(answer.path),
        note=logs.clean(answer.note),
    )
    if not taken:
        raise LogNotRequested(f"no log request {request} is waiting for an answer")
    announce(run_id, "logs")


def _check_exists(run_id: int, worker: int | None, slot: int | None) -> None:
    if worker is None:
        return
    found = FleetWorker.objects.filter(fleet__run_id=run_id, index=worker).first()
    if found is None:
        raise NoSuchLog(f"the fleet has no worker {worker}")
    if slot is not None and not found.slots.filter(slot=slot).exists():
        raise NoSuchLog(f"worker {worker} has no slot {slot}")
