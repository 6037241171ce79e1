"""Drop stale items, and the open items of ended runs and past epochs, each with its reason.

Pacing keeps data fresh; this module drops items that became stale nevertheless. It runs before a
batch is formed, and in the background for runs without requests.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F, IntegerField, Q, Sum
from django.db.models.functions import Coalesce, Now

from buffer.batches.services.settlement import drop_fragments, drop_groups
from buffer.items.models import Batch, FragmentChunk, Tally, TrajectoryGroup
from buffer.items.queries import counts
from buffer.items.rules.states import (
    NO_ENVIRONMENT,
    OPEN,
    UNSETTLED_BATCHES,
    BatchState,
    DropReason,
    ItemKind,
    ItemState,
)
from buffer.items.services import lock_run
from runs.events.services import record_event
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import (
    NO_POLICY_STEP,
    TERMINAL,
    PolicyVersion,
    RunStatus,
    version_in_force,
)
from web import sql
from web.live.announcements import announce
from web.sql import statements_of

SQL: Final = statements_of("buffer")

# Rows at the head of a queue whose age is checked per page.
_PAGE: Final = 512
# Maximum number of pages per call, so that a lease does not wait for the drop of a long queue.
_PAGES: Final = 8
RUNS_AT_ONCE: Final = 50

HAS_STALE_FRAGMENTS: Final = SQL["has_stale_fragments"]


def drop_unservable(run: Run, *, has_stale_fragments: bool = True) -> int:
    """Drop queued items that are stale for the run; return the number dropped.

    The caller holds the run's lock, and passes the value of :data:`HAS_STALE_FRAGMENTS` if it is
    known. All items that are stale by version are dropped; items that
    are stale by age are dropped from the head of the queue, some thousands per call.
    """
    if not run.takes_groups:
        stale = _drop_stale_fragments(run) if has_stale_fragments else 0
        return stale + _drop_old(run, ItemKind.FRAGMENTS)
    return _drop_stale_groups(run, [ItemState.QUEUED]) + _drop_old(run, ItemKind.GROUPS)


def drop_expired() -> int:
    """Drop stale items in all active runs with limits; return the number dropped."""
    limited = Q(max_age_seconds__isnull=False) | Q(max_staleness__isnull=False)
    holding = Tally.objects.filter(state__in=[ItemState.QUEUED, ItemState.WAITING], items__gt=0)
    runs = Run.objects.current().active().filter(limited, pk__in=holding.values("run_id"))
    return sum(_drop_expired(run_id) for run_id in list(runs.values_list("pk", flat=True)))


@transaction.atomic
def _drop_expired(run_id: int) -> int:
    lock_run(run_id)
    run = Run.objects.get(pk=run_id)
    dropped = drop_unservable(run)
    if run.takes_groups:
        dropped += _drop_stale_groups(run, [ItemState.WAITING])
        if run.max_age_seconds is not None:
            dropped += drop_groups(
                run_id,
                reason=DropReason.STALE_AGE,
                states=[ItemState.WAITING],
                received_at__lt=Now() - timedelta(seconds=run.max_age_seconds),
            )
    if dropped:
        announce(run_id, "queue", "ledger")
    return dropped


def drop_epochs_except_current(run: Run) -> int:
    """Drop open fragments and batches of other epochs; return the number of items dropped."""
    batches = Batch.objects.filter(run=run, state__in=UNSETTLED_BATCHES, kind=ItemKind.FRAGMENTS)
    ids = list(batches.exclude(epoch=run.epoch).values_list("id", flat=True))
    dropped = drop_fragments(run.pk, reason=DropReason.STALE_EPOCH, epoch__lt=run.epoch)
    if ids:
        Batch.objects.filter(id__in=ids).update(state=BatchState.DROPPED, settled_at=Now())
    return dropped


def _drop_stale_fragments(run: Run) -> int:
    oldest = _oldest(PolicyVersion(run.epoch, run.policy_step), run.max_staleness)
    if not _any(SQL["find_stale_fragments"], run=run.pk):
        return 0
    dropped = drop_epochs_except_current(run)
    if run.policy_step > NO_POLICY_STEP:
        dropped += drop_fragments(
            run.pk,
            reason=DropReason.STALE_VERSION,
            states=[ItemState.QUEUED, ItemState.WAITING],
            epoch=run.epoch,
            version_min__lt=oldest,
        )
    return dropped


def _drop_stale_groups(run: Run, states: list[ItemState]) -> int:
    if run.max_staleness is None:
        return 0
    current = version_in_force(
        epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
    )
    oldest = _oldest(current, run.max_staleness)
    if states == [ItemState.QUEUED] and not _any(
        SQL["find_stale_groups"], run=run.pk, epoch=current.epoch, oldest=oldest
    ):
        return 0
    others = drop_groups(
        run.pk, reason=DropReason.STALE_EPOCH, states=states, epoch__lt=current.epoch
    )
    return others + drop_groups(
        run.pk,
        reason=DropReason.STALE_VERSION,
        states=states,
        epoch=current.epoch,
        policy_step__lt=oldest,
    )


def _oldest(current: PolicyVersion, max_staleness: int | None) -> int:
    """Return the oldest step that may still be trained on; without a limit, below all steps."""
    return NO_POLICY_STEP if max_staleness is None else current.step - max_staleness


def _any(query: str, **values: int) -> bool:
    with sql.cursor() as cursor:
        row = cursor.execute(query.encode(), values, prepare=True).fetchone()
    return row is not None and bool(row[0])


def _drop_old(run: Run, kind: ItemKind) -> int:
    """Drop items that exceed the maximum age, page by page from the heads of the queue.

    Ids follow the order of arrival, so old items are at the head of their environment's queue.
    This needs no index on the arrival time, which every push would have to update.
    """
    if run.max_age_seconds is None:
        return 0
    if kind is ItemKind.FRAGMENTS:
        fragments = FragmentChunk.objects.filter(run=run, state=ItemState.QUEUED, epoch=run.epoch)
        return _drop_old_heads(run, fragments, drop_fragments)
    queued = counts(run.pk, ItemKind.GROUPS, state=ItemState.QUEUED)
    groups = TrajectoryGroup.objects.filter(run=run, state=ItemState.QUEUED).annotate(
        # Explicit output field: otherwise Django treats -1 as out of range and returns no rows.
        place=Coalesce("env_id", NO_ENVIRONMENT, output_field=IntegerField())
    )
    return sum(
        _drop_old_heads(run, groups.filter(place=env_id), drop_groups)
        for env_id in sorted({count.env_id for count in queued})
    )


def _drop_old_heads(run: Run, queue: Any, drop: Callable[..., int]) -> int:
    page = max(_PAGE, 2 * (run.batch_size or 0))
    too_old = Now() - timedelta(seconds=run.max_age_seconds or 0.0)
    dropped = 0
    for _ in range(_PAGES):
        gone = drop(
            run.pk,
            reason=DropReason.STALE_AGE,
            states=[ItemState.QUEUED],
            id__in=list(queue.order_by("id").values_list("id", flat=True)[:page]),
            received_at__lt=too_old,
        )
        dropped += gone
        if gone < page:
            break
    return dropped


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
    dropped = 0
    for run in Run.objects.filter(pk__in=list(open_runs[:RUNS_AT_ONCE])):
        reason = DropReason.DRAINED if run.status == RunStatus.COMPLETED else DropReason.KILLED
        if run.archived_at is not None:
            reason = DropReason.RESET
        dropped += drop_open(run_id=run.pk, reason=reason, now=now)
    return dropped


def drop_other_epochs() -> int:
    """Drop open fragments of past epochs; return the number dropped."""
    behind = (
        Tally.objects.filter(
            state__in=OPEN,
            kind="fragments",
            run__kind=RunKind.FLEET,
            run__deleted_at=None,
            epoch__lt=F("run__epoch"),
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
