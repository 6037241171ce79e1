"""Previews of the next batch, the environment mix, and a queue at one moment; read-only."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec
from django.db import connection, transaction

from buffer.batches.queries.queues import QueueState, queue_state
from buffer.batches.rules.batch_plan import EnvironmentQueue, NoPlan, target_shares
from buffer.batches.schemas import EnvironmentMixing, PreviewAnswer
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
_NOTHING: Final[dict[str, Any]] = {
    "waiting_for": [],
    "waits_until": None,
    "retried_batch": None,
    "items": 0,
    "sequences": 0,
    "sizes": {},
    "composition": {},
    "shares": {},
    "tokens": 0,
    "longest_tokens": 0,
    "padding": None,
    "oldest_at": None,
    "newest_at": None,
}
"""Fields of a preview without a batch."""


def _answer(run: Run, reason: str | None, queued: int, **fields: Any) -> PreviewAnswer:
    given = {"reason": reason, "batch_size": run.batch_size, "queued_sequences": queued}
    return msgspec.convert(_NOTHING | given | fields, PreviewAnswer)


def preview(run: Run) -> PreviewAnswer:
    """Return a preview of the next batch of an external run, of one moment."""
    return read_on_snapshot(partial(preview_in_transaction, run))


@transaction.atomic
def preview_in_transaction(run: Run) -> PreviewAnswer:
    """Return the preview, on the snapshot of the caller's transaction.

    A lease first drops stale items from the queue. The preview does the same in a transaction
    that it rolls back.
    """
    if run.batch_size is None:
        return _answer(run, UNREGISTERED, 0)
    if run.max_staleness is not None or run.max_age_seconds is not None:
        lock_run(run.pk)
        drop_unservable(run)
    found = _preview(run, run.batch_size)
    transaction.set_rollback(True)
    return found


def _preview(run: Run, batch_size: int) -> PreviewAnswer:
    queues = read_queues(run.pk)
    queued = sum(queue.sequences for queue in queues)
    returned = Batch.objects.filter(run=run, state=BatchState.RETURNED).order_by("ordinal").first()
    if returned is not None:
        return _answer(
            run,
            None,
            queued,
            retried_batch=str(returned.pk),
            composition=returned.composition,
            shares=returned.shares,
            **_about("batch_id = %s", [returned.pk]),
        )
    plan = plan_next(run, batch_size=batch_size).plan
    if isinstance(plan, NoPlan):
        waits_until = None
        if plan.blocked_since is not None and run.dry_deadline_seconds is not None:
            waits_until = plan.blocked_since + timedelta(seconds=run.dry_deadline_seconds)
        return _answer(
            run, str(plan.reason), queued, waiting_for=plan.waiting_for, waits_until=waits_until
        )
    return _answer(
        run,
        None,
        queued,
        composition=by_name(plan.composition),
        shares=by_name(plan.shares),
        **_about("id = ANY(%s)", [group_ids(run.pk, plan)]),
    )


def _about(which: str, values: list[Any]) -> dict[str, Any]:
    """Return the figures of the groups of a batch; `padding` is what padding them would waste."""
    with connection.cursor() as cursor:
        cursor.execute(filled(SQL["about_groups"], which=which), values)
        rows = cursor.fetchall()
    if not rows:
        return {}
    sequences, tokens, longest, received = zip(*rows, strict=True)
    totals = {
        "tokens": sum(tokens),
        "sequences": sum(sequences),
        "longest_tokens": max(longest),
    }
    return totals | {
        "items": len(rows),
        "sizes": dict(sorted(Counter(sequences).items())),
        "padding": padded_share(**totals),
        "oldest_at": min(received),
        "newest_at": max(received),
    }


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
    found = []
    for env_id in env_ids:
        environment = environments.get(env_id)
        queue = queues.get(env_id) or EnvironmentQueue(env_id=env_id, weight=0.0)
        share = shares.get(env_id) or MixingShare(env_id=env_id)
        found.append(
            EnvironmentMixing(
                env_id=None if env_id == NO_ENVIRONMENT else env_id,
                name=environment.wandb_name if environment else None,
                connected=queue.connected,
                weight=environment.weight if environment else queue.weight,
                minimum=queue.minimum,
                target=targets.get(env_id, 0.0),
                realised=share.sequences / total if total else 0.0,
                sequences=share.sequences,
                debt=share.debt,
                queued_sequences=queue.sequences,
                blocks_since=share.blocks_since,
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """All figures of a run's queue, from one snapshot of the database."""

    run: Run
    state: QueueState
    ledger: LedgerPart
    next_batch: PreviewAnswer | None
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
