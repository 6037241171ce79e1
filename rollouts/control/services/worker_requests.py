"""Requests of operators to workers: cordons, replacements, logs and thread stacks."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F, Q, QuerySet

from rolldeck.operator_requests import LogLines
from rollouts.control.models import FleetWorker, LogRequest
from rollouts.control.schemas import RequestStacks, WorkerCordon, WorkerRestart, WorkerUncordon
from rollouts.fleet.process import logs
from rollouts.fleet.process.logs import LINES_AT_MOST
from runs.events.services import record_event
from runs.lifecycle.rules import RunStatus
from web.live.announcements import announce
from web.rules.errors import Conflict, NotFound

SHARED_FOR: Final = timedelta(seconds=5)
"""Age up to which an unanswered request serves further readers."""
WITH_FLEET: Final = (
    *(RunStatus.STARTING, RunStatus.RUNNING),
    *(RunStatus.PAUSED, RunStatus.DRAINING),
)
KIND: Final = "stacks"


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


class WorkerNotFound(NotFound):
    """The run's fleet has no worker of that index."""


class WorkerNotThere(Conflict):
    """The worker was replaced or cordoned since, or its fleet is gone."""

    code = "worker_not_there"
    title = "The worker was replaced"


@dataclass(frozen=True, kw_only=True)
class PlacedWorker:
    """A worker index of a fleet, held by successive incarnations."""

    index: int
    row: QuerySet[FleetWorker]
    holder: str
    """Incarnation that held the index at the lookup."""

    def held_by(self, incarnation: str) -> QuerySet[FleetWorker]:
        """Return the worker's row while that incarnation holds it and a fleet runs, else no row."""
        living = self.row.filter(incarnation=incarnation, fleet__run__status__in=WITH_FLEET)
        return living.exclude(fleet__incarnation="")

    def demand(self, incarnation: str) -> None:
        """Check that the given incarnation holds the index.

        Raises:
            WorkerNotThere: If another one holds it, or no fleet runs.
        """
        if self.held_by(incarnation).exists():
            return
        raise WorkerNotThere(
            f"worker {self.index} has the incarnation {self.holder} now"
            if self.holder != incarnation
            else "the run has no running fleet"
        )


def placed_worker(run_id: int, index: int) -> PlacedWorker:
    """Return a worker of the run's fleet by index.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
    """
    row = FleetWorker.objects.filter(fleet__run_id=run_id, index=index)
    holder = row.values_list("incarnation", flat=True).first()
    if holder is None:
        raise WorkerNotFound(f"the fleet has no worker {index}")
    return PlacedWorker(index=index, row=row, holder=holder)


@transaction.atomic
def cordon_worker(
    *, run_id: int, index: int, body: WorkerCordon, actor: str, now: datetime
) -> None:
    """Drain a worker and end it, without a replacement.

    The cordon applies to the worker's index: to the incarnation that runs when the fleet receives
    it, and to every later fleet of the run, until it is lifted. Repeated calls change nothing.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, or no fleet.
    """
    seat = placed_worker(run_id, index)
    mine = seat.held_by(body.incarnation)
    # The last request wins: a worker to be replaced is cordoned instead.
    changes = {"cordoned_by": actor, "cordon_reason": body.reason, "restart_of": ""}
    if mine.filter(cordoned_at=None).update(cordoned_at=now, **changes):
        record_event(
            run_id=run_id,
            kind="worker_cordon_asked",
            message=f"cordoned worker {index}",
            actor=actor,
            reason=body.reason,
            now=now,
            details={"worker": index, "incarnation": body.incarnation},
        )
        announce(run_id, "operator_requests", "fleet")
    else:
        seat.demand(body.incarnation)


@transaction.atomic
def uncordon_worker(
    *, run_id: int, index: int, body: WorkerUncordon, actor: str, now: datetime
) -> None:
    """Lift a worker's cordon; a draining worker ends first. Repeated calls change nothing.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
    """
    seat = placed_worker(run_id, index)
    lifted = {"cordoned_at": None, "cordoned_by": "", "cordon_reason": ""}
    if seat.row.exclude(cordoned_at=None).update(**lifted):
        record_event(
            run_id=run_id,
            kind="worker_uncordon_asked",
            message=f"lifted the cordon of worker {index}",
            actor=actor,
            reason=body.reason,
            now=now,
            details={"worker": index},
        )
        announce(run_id, "operator_requests", "fleet")


@transaction.atomic
def restart_worker(
    *, run_id: int, index: int, body: WorkerRestart, actor: str, now: datetime
) -> None:
    """Request the replacement of a worker; repeated calls for the same one change nothing.

    The worker first sends its complete fragments; steps of incomplete ones are counted as lost.

    Raises:
        WorkerNotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, the worker is cordoned, or no fleet runs.
    """
    seat = placed_worker(run_id, index)
    mine = seat.held_by(body.incarnation)
    if mine.exclude(cordoned_at=None).exists():
        raise WorkerNotThere(f"worker {index} is cordoned: lift the cordon to start a new one")
    new = mine.exclude(restart_of=F("incarnation"))
    if new.update(restart_of=body.incarnation, restart_reason=body.reason):
        record_event(
            run_id=run_id,
            kind="worker_restart_asked",
            message=f"requested a replacement of worker {index}",
            actor=actor,
            reason=body.reason,
            now=now,
        )
        announce(run_id, "operator_requests", "fleet")
    else:
        seat.demand(body.incarnation)


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
