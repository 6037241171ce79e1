"""Requests of operators to workers: cordons, replacements, logs and thread stacks."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F, Q, QuerySet

from rolldeck.operator_requests import LogLines
from rollouts.control.models import FleetWorker, LogRequest
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
    if worker is not None:
        reported = FleetWorker.objects.filter(fleet__run_id=run_id, index=worker).first()
        if reported is None:
            raise NoSuchLog(f"the fleet has no worker {worker}")
        if slot is not None and not reported.slots.filter(slot=slot).exists():
            raise NoSuchLog(f"worker {worker} has no slot {slot}")
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


class WorkerNotThere(Conflict):
    """The worker was replaced or cordoned since, or its fleet is gone."""

    code = "worker_not_there"
    title = "The worker was replaced"


@dataclass(frozen=True, kw_only=True)
class OperatorRequest:
    """A request of an operator to the worker of an index, which successive incarnations hold."""

    run_id: int
    worker: int
    incarnation: str
    """Incarnation that the operator saw; empty if any is meant."""
    reason: str
    actor: str
    now: datetime

    @property
    def row(self) -> QuerySet[FleetWorker]:
        """The worker's row.

        Raises:
            NotFound: If the fleet has no such worker.
        """
        row = FleetWorker.objects.filter(fleet__run_id=self.run_id, index=self.worker)
        if not row.exists():
            raise NotFound(f"the fleet has no worker {self.worker}")
        return row

    @property
    def held_row(self) -> QuerySet[FleetWorker]:
        """The worker's row while the incarnation holds it and a fleet runs, else no row."""
        held = self.row.filter(incarnation=self.incarnation, fleet__run__status__in=WITH_FLEET)
        return held.exclude(fleet__incarnation="")

    def check_holder(self) -> None:
        """Check that the incarnation holds the index.

        Raises:
            WorkerNotThere: If another one holds it, or no fleet runs.
        """
        if self.held_row.exists():
            return
        holder = self.row.values_list("incarnation", flat=True).first()
        raise WorkerNotThere(
            f"worker {self.worker} has the incarnation {holder} now"
            if holder != self.incarnation
            else "the run has no running fleet"
        )

    def record(self, kind: str, *, message: str) -> None:
        """Record the request as an event of the run, and wake the fleet."""
        details: dict[str, object] = {"worker": self.worker}
        if self.incarnation:
            details["incarnation"] = self.incarnation
        record_event(
            run_id=self.run_id,
            kind=kind,
            message=f"{message} worker {self.worker}",
            actor=self.actor,
            reason=self.reason,
            now=self.now,
            details=details,
        )
        announce(self.run_id, "operator_requests", "fleet")


@transaction.atomic
def cordon_worker(request: OperatorRequest) -> None:
    """Drain a worker and end it, without a replacement.

    The cordon applies to the worker's index: to the incarnation that runs when the fleet receives
    it, and to every later fleet of the run, until it is lifted. Repeated calls change nothing.

    Raises:
        NotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, or no fleet.
    """
    changed = request.held_row.filter(cordoned_at=None).update(
        cordoned_at=request.now,
        cordoned_by=request.actor,
        cordon_reason=request.reason,
        # The last request wins: a worker to be replaced is cordoned instead.
        restart_of="",
    )
    if changed:
        request.record("worker_cordon_asked", message="cordoned")
    else:
        request.check_holder()


@transaction.atomic
def uncordon_worker(request: OperatorRequest) -> None:
    """Lift a worker's cordon; a draining worker ends first. Repeated calls change nothing.

    Raises:
        NotFound: If the fleet has no such worker.
    """
    cordoned = request.row.exclude(cordoned_at=None)
    if cordoned.update(cordoned_at=None, cordoned_by="", cordon_reason=""):
        request.record("worker_uncordon_asked", message="lifted the cordon of")


@transaction.atomic
def restart_worker(request: OperatorRequest) -> None:
    """Request the replacement of a worker; repeated calls for the same one change nothing.

    The worker first sends its complete fragments; steps of incomplete ones are counted as lost.

    Raises:
        NotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, the worker is cordoned, or no fleet runs.
    """
    mine = request.held_row
    if mine.exclude(cordoned_at=None).exists():
        raise WorkerNotThere(
            f"worker {request.worker} is cordoned: lift the cordon to start a new one"
        )
    new = mine.exclude(restart_of=F("incarnation"))
    if new.update(restart_of=request.incarnation, restart_reason=request.reason):
        request.record("worker_restart_asked", message="requested a replacement of")
    else:
        request.check_holder()


@transaction.atomic
def request_stacks(request: OperatorRequest) -> None:
    """Request the thread stacks of a worker; a recent unanswered request is reused.

    Raises:
        NotFound: If the fleet has no such worker.
        WorkerNotThere: If another incarnation runs, or no fleet.
    """
    request.check_holder()
    now, incarnation = request.now, request.incarnation
    row, is_new = LogRequest.objects.get_or_create(
        run_id=request.run_id,
        kind="stacks",
        worker=request.worker,
        slot=None,
        defaults={"lines": LINES_AT_MOST, "asked_at": now, "incarnation": incarnation},
    )
    row = LogRequest.objects.select_for_update().get(pk=row.pk)
    waits = row.answered_at is None or row.answered_at < row.asked_at
    is_same = row.incarnation == incarnation
    if not is_new and waits and is_same and now - row.asked_at <= SHARED_FOR:
        return
    if not is_new:
        row.request, row.asked_at, row.incarnation = uuid.uuid4(), now, incarnation
        row.content, row.note = [], ""
        row.save(update_fields=["request", "asked_at", "incarnation", "content", "note"])
    request.record("worker_stacks_asked", message="requested the thread stacks of")
