"""Previews of the next batch, the environment mix, and a queue at one moment; read-only."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from buffer.batches.queries.queues import QueueState, queue_state
from buffer.batches.rules.batch_plan import EnvironmentQueue, NoPlan, target_shares
from buffer.batches.schemas import EnvironmentMixing
from buffer.batches.services.expiry import drop_unservable
from buffer.batches.services.forming import by_name, group_ids, plan_next, read_queues
from buffer.items.models import Batch, MixingShare
from buffer.items.queries import ledger_part
from buffer.items.rules.states import NO_ENVIRONMENT, BatchState, padded_share
from buffer.items.schemas import LedgerPart
from buffer.items.services import lock_run
from runs.lifecycle.models import Environment, Run
from runs.lifecycle.queries import readable_run
from web.snapshots import read_on_snapshot
from web.sql import filled, statements_of

SQL: Final = statements_of("buffer")


UNREGISTERED: Final = "unregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotals:
    """Statistics of the groups of a batch."""

    items: int = 0
    sequences: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    tokens: int = 0
    longest_tokens: int = 0
    oldest_at: datetime | None = None
    newest_at: datetime | None = None

    @property
    def padding(self) -> float | None:
        """Fraction of positions that padding to the longest sequence would waste."""
        return padded_share(
            tokens=self.tokens, sequences=self.sequences, longest_tokens=self.longest_tokens
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Preview of the next batch; `reason` is empty if one is ready."""

    reason: str
    queued_sequences: int = 0
    waiting_for: tuple[int, ...] = ()
    waits_until: datetime | None = None
    retried_batch: UUID | None = None
    composition: dict[str, int] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    groups: GroupTotals = field(default_factory=GroupTotals)


def preview(run: Run) -> Preview:
    """Return a preview of the next batch of an external run, of one moment."""
    return read_on_snapshot(partial(preview_in_transaction, run))


@transaction.atomic
def preview_in_transaction(run: Run) -> Preview:
    """Return the preview, on the snapshot of the caller's transaction.

    A lease first drops stale items from the queue. The preview does the same in a transaction
    that it rolls back.
    """
    if run.batch_size is None:
        return Preview(reason=UNREGISTERED)
    if run.max_staleness is not None or run.max_age_seconds is not None:
        lock_run(run.pk)
        drop_unservable(run)
    found = _preview(run, run.batch_size)
    transaction.set_rollback(True)
    return found


def _preview(run: Run, batch_size: int) -> Preview:
    queues = read_queues(run.pk)
    queued = sum(queue.sequences for queue in queues)
    returned = Batch.objects.filter(run=run, state=BatchState.RETURNED).order_by("ordinal").first()
    if returned is not None:
        return Preview(
            reason="",
            queued_sequences=queued,
            retried_batch=returned.pk,
            composition=returned.composition,
            shares=returned.shares,
            groups=_about("batch_id = %s", [returned.pk]),
        )
    plan = plan_next(run, batch_size=batch_size).plan
    if isinstance(plan, NoPlan):
        return Preview(
            reason=str(plan.reason),
            queued_sequences=queued,
            waiting_for=plan.waiting_for,
            waits_until=None
            if plan.blocked_since is None or run.dry_deadline_seconds is None
            else plan.blocked_since + timedelta(seconds=run.dry_deadline_seconds),
        )
    return Preview(
        reason="",
        queued_sequences=queued,
        composition=by_name(plan.composition),
        shares=by_name(plan.shares),
        groups=_about("id = ANY(%s)", [group_ids(run.pk, plan)]),
    )


def _about(which: str, values: list[Any]) -> GroupTotals:
    with connection.cursor() as cursor:
        cursor.execute(filled(SQL["about_groups"], which=which), values)
        rows = cursor.fetchall()
    if not rows:
        return GroupTotals()
    sequences, tokens, longest, received = zip(*rows, strict=True)
    return GroupTotals(
        items=len(rows),
        sequences=sum(sequences),
        sizes=dict(sorted(Counter(sequences).items())),
        tokens=sum(tokens),
        longest_tokens=max(longest),
        oldest_at=min(received),
        newest_at=max(received),
    )


def mixing(run_id: int) -> list[EnvironmentMixing]:
    """Return all environments that are or were part of a run's batches, ordered by `env_id`."""
    queues = {queue.env_id: queue for queue in read_queues(run_id)}
    shares = {share.env_id: share for share in MixingShare.objects.filter(run_id=run_id)}
    env_ids = sorted(set(queues) | set(shares))
    environments = {
        row.env_id: row for row in Environment.objects.filter(run_id=run_id, env_id__in=env_ids)
    }
    targets = target_shares(list(queues.values()))
    total = sum(share.sequences for share in shares.values())
    return [
        _row(
            environments.get(env_id),
            queues.get(env_id) or EnvironmentQueue(env_id=env_id, weight=0.0),
            shares.get(env_id) or MixingShare(env_id=env_id),
            target=targets.get(env_id, 0.0),
            total=total,
        )
        for env_id in env_ids
    ]


def _row(
    environment: Environment | None,
    queue: EnvironmentQueue,
    share: MixingShare,
    *,
    target: float,
    total: int,
) -> EnvironmentMixing:
    return EnvironmentMixing(
        env_id=None if queue.env_id == NO_ENVIRONMENT else queue.env_id,
        name=environment.wandb_name if environment else None,
        connected=queue.connected,
        weight=environment.weight if environment else queue.weight,
        minimum=queue.minimum,
        target=target,
        realised=share.sequences / total if total else 0.0,
        sequences=share.sequences,
        debt=share.debt,
        queued_sequences=queue.sequences,
        blocks_since=share.blocks_since,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """All figures of a run's queue, from one snapshot of the database."""

    run: Run
    state: QueueState
    ledger: LedgerPart
    next_batch: Preview | None
    """None for runs of fragments, which have no preview."""


def queue_snapshot(name: str, *, now: datetime) -> QueueSnapshot:
    """Return the queue of the run at address `name`."""

    def read() -> QueueSnapshot:
        run = readable_run(name)
        return QueueSnapshot(
            run=run,
            state=queue_state(run, now=now),
            ledger=ledger_part(run.pk),
            next_batch=preview_in_transaction(run) if run.takes_groups else None,
        )

    return read_on_snapshot(read)
