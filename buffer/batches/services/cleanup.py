"""Cleanup of open items when a run ends or its trainer restarts."""

from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import F, Q, Sum
from django.db.models.functions import Now

from buffer.batches.services.expiry import drop_epochs_except_current
from buffer.batches.services.transitions import drop_fragments, drop_groups
from buffer.items.models.items import Batch, Tally
from buffer.items.rules.states import OPEN, UNSETTLED_BATCHES, BatchState, DropReason
from buffer.items.services.locks import lock_run
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run, RunKind
from runs.lifecycle.rules.lifecycle import TERMINAL, RunStatus
from web.live.announcements import announce

RUNS_AT_ONCE: Final = 50


@transaction.atomic
def drop_open(*, run_id: int, reason: str, now: datetime) -> int:
    """Drop all open items of a run; return the number dropped."""
    lock_run(run_id)
    why = DropReason(reason)
    dropped = drop_groups(run_id, reason=why) + drop_fragments(run_id, reason=why)
    Batch.objects.filter(run_id=run_id, state__in=UNSETTLED_BATCHES).update(
        state=BatchState.DROPPED, settled_at=Now()
    )
    if dropped:
        record_event(
            run_id=run_id,
            kind="items_dropped",
            message=f"dropped {dropped} open items",
            reason=reason,
            actor="buffer",
            details={"items": dropped},
            now=now,
        )
        announce(run_id, "queue", "ledger")
    return dropped


def settle_ended_runs(*, now: datetime) -> int:
    """Drop open items of runs that have ended or were reset; return the number dropped."""
    open_runs = (
        Tally.objects.filter(state__in=OPEN)
        .filter(Q(run__status__in=TERMINAL) | Q(run__archived_at__isnull=False))
        .values("run_id")
        .annotate(open=Sum("items"))
        .filter(open__gt=0)
        .values_list("run_id", flat=True)
    )
    runs = Run.objects.filter(pk__in=list(open_runs[:RUNS_AT_ONCE]))
    return sum(drop_open(run_id=run.pk, reason=_drop_reason(run), now=now) for run in runs)


def _drop_reason(run: Run) -> DropReason:
    if run.archived_at is not None:
        return DropReason.RESET
    if run.status == RunStatus.COMPLETED:
        return DropReason.DRAINED
    return DropReason.KILLED


def drop_other_epochs() -> int:
    """Drop open fragments of past epochs; return the number dropped."""
    behind = (
        Tally.objects.filter(
            state__in=OPEN, kind="fragments", run__kind=RunKind.FLEET, epoch__lt=F("run__epoch")
        )
        .values("run_id")
        .annotate(open=Sum("items"))
        .filter(open__gt=0)
        .values_list("run_id", flat=True)
    )
    return sum(_drop_other_epochs(run_id) for run_id in list(behind[:RUNS_AT_ONCE]))


@transaction.atomic
def _drop_other_epochs(run_id: int) -> int:
    lock_run(run_id)
    dropped = drop_epochs_except_current(Run.objects.get(pk=run_id))
    if dropped:
        announce(run_id, "queue", "ledger")
    return dropped
