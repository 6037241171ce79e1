"""Form and lease batches from the queue, from metadata only, with one statement after the plan."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import connection

from buffer.batches.rules.batch_plan import BatchPlan, NoPlan
from buffer.batches.services.planning import Planned, group_ids, plan_next
from buffer.items.models import Batch
from buffer.items.queries import queued_fragments
from buffer.items.rules.environments import NO_ENVIRONMENT
from buffer.items.rules.states import ItemKind, ItemState
from buffer.items.services import MOVED, TABLES, ItemsMoved, insert_batch
from buffer.payloads.services.contents import Reading
from buffer.replay.services import form_of_sample
from runs.config.rules.sections import replay_of
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.rules import PolicyVersion, version_in_force
from web import database
from web.sql import filled, statements_of

SQL: Final = statements_of("buffer")

_FORM_OF: Final = {
    kind: filled(
        SQL["form_batch"],
        table=TABLES[kind],
        columns=MOVED[kind],
        mixing=SQL["update_debts"] if kind is ItemKind.GROUPS else "",
    )
    for kind in ItemKind
}


def form_and_lease(
    run: Run, trainer: Trainer, *, sender: str, reads_ahead: bool, count: int | None
) -> tuple[Batch, Reading | None] | None:
    """Form and lease the next batch of a run; return None if the queue does not fill one.

    The caller holds the run's lock.

    Args:
        run: The run.
        trainer: The trainer that gets the batch.
        sender: The process that will send it, if it must record the delivery.
        reads_ahead: Start to read the bytes of groups before they are leased.
        count: Number of fragments; by default the batch size of the run.
    """
    size = run.batch_size if run.takes_groups else count or run.batch_size
    if size is None:
        return None
    if run.takes_groups:
        return _form_of_groups(run, trainer, size, sender=sender, reads_ahead=reads_ahead)
    if replay_of(run.config).is_queue:
        batch = _form_of_fragments(run, trainer, size, sender=sender)
    else:
        batch = form_of_sample(run, trainer, size, sender=sender)
    return None if batch is None else (batch, None)


def _form_of_groups(
    run: Run, trainer: Trainer, size: int, *, sender: str, reads_ahead: bool
) -> tuple[Batch, Reading | None] | None:
    planned = plan_next(run, batch_size=size)
    plan = planned.plan
    if isinstance(plan, NoPlan):
        _record_waiting(run.pk, plan, planned)
        return None
    groups = group_ids(run.pk, plan)
    reading = None
    if reads_ahead and not plan.behind:
        reading = Reading([planned.locations[group_id] for group_id in groups])
    batch = _lease(run, trainer, ItemKind.GROUPS, groups, sender=sender, **_of_plan(run, plan))
    if batch.sequences != sum(plan.composition.values()):
        raise ItemsMoved(f"groups of {batch} left the queue under the run's lock")
    return batch, reading


def _of_plan(run: Run, plan: BatchPlan) -> dict[str, Any]:
    """Return the arguments of :func:`insert_batch` for planned groups."""
    env_ids = list(plan.debts)
    return {
        "current": version_in_force(
            epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
        ),
        "composition": by_name(plan.composition),
        "shares": by_name(plan.shares),
        "env_ids": env_ids,
        "taken": [plan.composition.get(env_id, 0) for env_id in env_ids],
        "debts": [plan.debts[env_id] for env_id in env_ids],
        "targets": [plan.shares[env_id] for env_id in env_ids],
    }


def _form_of_fragments(run: Run, trainer: Trainer, count: int, *, sender: str) -> Batch | None:
    if queued_fragments(run.pk, run.epoch) < count:
        return None
    with database.cursor() as cursor:
        rows = cursor.execute(
            SQL["oldest_fragments"], [run.pk, run.epoch, count], prepare=True
        ).fetchall()
    if len(rows) < count:
        return None
    ids = [item_id for (item_id,) in rows]
    current = PolicyVersion(run.epoch, run.policy_step)
    batch = _lease(run, trainer, ItemKind.FRAGMENTS, ids, sender=sender, current=current)
    if batch.items != count:
        raise ItemsMoved(f"fragments of {batch} left the queue under the run's lock")
    return batch


def _lease(
    run: Run, trainer: Trainer, kind: ItemKind, items: list[int], *, sender: str, **values: Any
) -> Batch:
    """Move queued items into a new batch, in order."""
    return insert_batch(
        _FORM_OF[kind],
        run,
        trainer,
        kind=kind,
        sender=sender,
        items=items,
        source=ItemState.QUEUED,
        to=ItemState.LEASED,
        reason="",
        **values,
    )


def subtract_shares(batch: Batch) -> None:
    """Subtract the sequences of a dropped batch from the shares of its environments."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["subtract_shares"], [batch.pk])


def _record_waiting(run_id: int, refused: NoPlan, planned: Planned) -> None:
    """Record which environments' minimums delay batches, if that has changed."""
    if set(refused.waiting_for) == planned.on_record:
        return
    waits: dict[str, Any] = {
        "run": run_id,
        "waiting": list(refused.waiting_for),
        "since": refused.blocked_since,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["record_waiting"], waits)


def by_name(by_environment: Mapping[int, Any]) -> dict[str, Any]:
    """Return values with `env_id` as text keys; ``""`` is the key for no environment."""
    return {
        "" if env_id == NO_ENVIRONMENT else str(env_id): found
        for env_id, found in by_environment.items()
    }
