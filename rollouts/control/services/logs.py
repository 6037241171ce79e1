"""Ask a fleet for the end of a log, and take what it answers.

A request is a row, one for each log that anybody ever wanted to read; the fleet hears of it with
its orders. Several readers of one log share a request, and each answer replaces the last one.
"""

import uuid
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F, Q

from rolldeck.errands import LogLines
from rollouts.control.models.fleets import FleetWorker, LogRequest
from rollouts.fleet.worker import log_text
from runs.live import announce

SHARED_FOR: Final = timedelta(seconds=5)
"""Age up to which a request that waits for its answer serves further readers."""


class NoSuchLog(LookupError):
    """The fleet never had this worker or slot."""


class LogNotAsked(LookupError):
    """Nobody waits for this answer: it was given before, or asked for anew."""


@transaction.atomic
def ask_for_log(
    *, run_id: int, worker: int | None, slot: int | None, lines: int, now: datetime
) -> LogRequest:
    """Have the fleet read the end of a log; an unanswered request of a moment ago will do.

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
    announce(run_id, "errands")
    return row


@transaction.atomic
def answer_log(*, run_id: int, request: uuid.UUID, answer: LogLines, now: datetime) -> None:
    """Store what the fleet read, cleaned again: whoever sends it may be anybody's code.

    Raises:
        LogNotAsked: If nobody waits for it.
    """
    waits = Q(answered_at=None) | Q(answered_at__lt=F("asked_at"))
    taken = LogRequest.objects.filter(waits, run_id=run_id, request=request).update(
        answered_at=now,
        content=log_text.clean_all(answer.lines),
        node=log_text.clean(answer.node),
        path=log_text.clean(answer.path),
        note=log_text.clean(answer.note),
    )
    if not taken:
        raise LogNotAsked(f"nobody waits for an answer to {request}")
    announce(run_id, "logs")


def _check_exists(run_id: int, worker: int | None, slot: int | None) -> None:
    if worker is None:
        return
    found = FleetWorker.objects.filter(fleet__run_id=run_id, index=worker).first()
    if found is None:
        raise NoSuchLog(f"the fleet has no worker {worker}")
    if slot is not None and not found.slots.filter(slot=slot).exists():
        raise NoSuchLog(f"worker {worker} has no slot {slot}")
