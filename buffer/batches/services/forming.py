"""Plan, form and lease batches from the queue, from metadata only.

The cost of a plan is independent of the queue's length: one statement reads counts, environments
and debts; another reads the oldest groups of each environment through the partial index of its
queue, as many as the forecast needs. One statement follows the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from django.db import connection
from psycopg.rows import class_row

from buffer.batches.rules.batch_plan import (
    BatchPlan,
    EnvironmentQueue,
    NoBatch,
    NoPlan,
    QueuedGroup,
    forecast,
    plan_batch,
)
from buffer.items.models import Batch
from buffer.items.queries import queued_fragments
from buffer.items.rules.states import NO_ENVIRONMENT, ItemKind, ItemState
from buffer.items.services import MOVED, TABLES, ItemsMoved, insert_batch
from buffer.payloads.services.contents import PayloadLocation, Reading
from buffer.replay.services import form_of_sample
from runs.config.rules.sections import replay_of
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.rules import SILENT_AFTER, PolicyVersion, RunStatus, version_in_force
from web import sql
from web.sql import filled, statements_of

SQL: Final = statements_of("buffer")

# Groups of each environment that are weighed beyond the forecast, to skip odd sizes before groups
# are chosen by size alone.
SPARE_GROUPS: Final = 16


class _StateRow(NamedTuple):
    """Counts, registration and debt of one environment."""

    now: datetime
    env_id: int
    weight: float
    minimum: float
    connected: bool
    debt: float
    blocks_since: datetime | None
    sizes: list[int] | None
    items: list[int] | None

    def queue(self) -> EnvironmentQueue:
        return EnvironmentQueue(
            env_id=self.env_id,
            behind=dict(zip(self.sizes or [], self.items or [], strict=True)),
            weight=self.weight,
            minimum=self.minimum,
            connected=self.connected,
            debt=self.debt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of the next batch, and its inputs."""

    plan: BatchPlan | NoPlan
    queues: list[EnvironmentQueue]
    on_record: set[int]
    """Environments on record as delaying the run's batches."""
    locations: Mapping[int, PayloadLocation] = field(default_factory=dict)
    """Locations of the bytes of the groups in the windows, by id."""


def plan_next(run: Run, *, batch_size: int) -> Planned:
    """Plan the next batch of an external run; leases nothing."""
    rows = _state(run.pk)
    if not rows:
        return Planned(plan=NoPlan(reason=NoBatch.TOO_FEW), queues=[], on_record=set())
    queues = [row.queue() for row in rows]
    locations: dict[int, PayloadLocation] = {}
    if sum(queue.sequences for queue in queues) >= batch_size:
        queues, locations = _with_windows(run.pk, queues, batch_size)
    blocked = {row.env_id: row.blocks_since for row in rows if row.blocks_since is not None}
    plan = plan_batch(
        queues,
        batch_size=batch_size,
        now=rows[0].now,
        blocked_since=min(blocked.values(), default=None),
        # A draining run receives no more groups, so it must not wait for minimums.
        deadline_seconds=0 if run.status == RunStatus.DRAINING else run.dry_deadline_seconds,
    )
    return Planned(plan=plan, queues=queues, on_record=set(blocked), locations=locations)


def group_ids(run_id: int, plan: BatchPlan) -> list[int]:
    """Return the groups of a planned batch, oldest first."""
    if not plan.behind:
        return sorted(plan.chosen)
    columns = zip(
        *[(part.env_id, part.sequences, part.after, part.count) for part in plan.behind],
        strict=True,
    )
    with sql.cursor() as cursor:
        cursor.execute(SQL["groups_by_size"], [*map(list, columns), run_id], prepare=True)
        behind = [group_id for (group_id,) in cursor.fetchall()]
    return sorted(plan.chosen + behind)


def read_queues(run_id: int) -> list[EnvironmentQueue]:
    """Return the environments of a run's batches, with groups as counts by size."""
    return [row.queue() for row in _state(run_id)]


def _state(run_id: int) -> list[_StateRow]:
    parameters = {"run": run_id, "silent_after": SILENT_AFTER}
    with sql.cursor(class_row(_StateRow)) as cursor:
        return cursor.execute(SQL["environments_of_queue"], parameters, prepare=True).fetchall()


def _with_windows(
    run_id: int, queues: list[EnvironmentQueue], batch_size: int
) -> tuple[list[EnvironmentQueue], dict[int, PayloadLocation]]:
    """Return the environments with their oldest groups, and where the bytes of each group are."""
    queued = [queue for queue in queues if queue.behind]
    windows: dict[int, list[QueuedGroup]] = {queue.env_id: [] for queue in queued}
    locations: dict[int, PayloadLocation] = {}
    sequences_of = forecast(queued, batch_size=batch_size)
    parts = [
        {
            "env_id": queue.env_id,
            "length": sequences_of[queue.env_id] // min(queue.behind) + SPARE_GROUPS,
        }
        for queue in queued
    ]
    with sql.cursor() as cursor:
        parameters = [msgspec.json.encode(parts).decode(), run_id]
        cursor.execute(SQL["oldest_groups"], parameters, prepare=True, binary=True)
        for env_id, group_id, sequences, *location in cursor.fetchall():
            windows[env_id].append(QueuedGroup(group_id, sequences))
            locations[group_id] = PayloadLocation(*location)
    split = []
    for queue in queues:
        window = windows.get(queue.env_id, [])
        behind = dict(queue.behind)
        for group in window:
            behind[group.sequences] = behind.get(group.sequences, 0) - 1
        left = {size: count for size, count in behind.items() if count > 0}
        split.append(replace(queue, window=window, behind=left))
    return split, locations


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
    if not replay_of(run.config).is_queue:
        batch = form_of_sample(run, trainer, size, sender=sender)
        return None if batch is None else (batch, None)
    if queued_fragments(run.pk, run.epoch) < size:
        return None
    with sql.cursor() as cursor:
        rows = cursor.execute(
            SQL["oldest_fragments"], [run.pk, run.epoch, size], prepare=True
        ).fetchall()
    if len(rows) < size:
        return None
    ids = [item_id for (item_id,) in rows]
    current = PolicyVersion(run.epoch, run.policy_step)
    batch = _lease(run, trainer, ItemKind.FRAGMENTS, ids, sender=sender, current=current)
    if batch.items != size:
        raise ItemsMoved(f"fragments of {batch} left the queue under the run's lock")
    return batch, None


def _form_of_groups(
    run: Run, trainer: Trainer, size: int, *, sender: str, reads_ahead: bool
) -> tuple[Batch, Reading | None] | None:
    planned = plan_next(run, batch_size=size)
    plan = planned.plan
    if isinstance(plan, NoPlan):
        # Which environments' minimums delay batches, if that has changed.
        if set(plan.waiting_for) != planned.on_record:
            waits: dict[str, Any] = {
                "run": run.pk,
                "waiting": list(plan.waiting_for),
                "since": plan.blocked_since,
            }
            with connection.cursor() as cursor:
                cursor.execute(SQL["record_waiting"], waits)
        return None
    groups = group_ids(run.pk, plan)
    reading = None
    if reads_ahead and not plan.behind:
        reading = Reading([planned.locations[group_id] for group_id in groups])
    env_ids = list(plan.debts)
    batch = _lease(
        run,
        trainer,
        ItemKind.GROUPS,
        groups,
        sender=sender,
        current=version_in_force(
            epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
        ),
        composition=by_name(plan.composition),
        shares=by_name(plan.shares),
        env_ids=env_ids,
        taken=[plan.composition.get(env_id, 0) for env_id in env_ids],
        debts=[plan.debts[env_id] for env_id in env_ids],
        targets=[plan.shares[env_id] for env_id in env_ids],
    )
    if batch.sequences != sum(plan.composition.values()):
        raise ItemsMoved(f"groups of {batch} left the queue under the run's lock")
    return batch, reading


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


def by_name(by_environment: Mapping[int, Any]) -> dict[str, Any]:
    """Return values with `env_id` as text keys; ``""`` is the key for no environment."""
    return {
        "" if env_id == NO_ENVIRONMENT else str(env_id): found
        for env_id, found in by_environment.items()
    }
