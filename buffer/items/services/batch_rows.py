"""Rows of new batches, made from the rows of their items in one statement."""

import json
import uuid
from typing import Any

from psycopg.types.json import Jsonb

from buffer.items.models.items import Batch
from buffer.items.rules.states import BatchState, ItemKind
from runs.lifecycle.models.runs import Run, Trainer
from runs.lifecycle.rules.versions import PolicyVersion
from web import database


class ItemsMoved(RuntimeError):
    """Queued items of a run were moved without its lock."""


def insert_batch(
    statement: str,
    run: Run,
    trainer: Trainer,
    *,
    kind: ItemKind,
    sender: str,
    current: PolicyVersion,
    batch_id: uuid.UUID | None = None,
    sampler: str = "",
    composition: dict[str, int] | None = None,
    shares: dict[str, float] | None = None,
    **values: Any,
) -> Batch:
    """Create a batch with the run's next ordinal, leased to a trainer.

    Args:
        statement: Statement with the CTEs ``moved`` and `insert_batch`.
        run: The run.
        trainer: The trainer that gets the batch.
        kind: Kind of the items.
        sender: The process that will send it, if it must record the delivery.
        current: Version in force, from which the staleness of items is measured.
        batch_id: Id of the batch; by default a new one.
        sampler: Name of the sampler; empty for a batch from the queue.
        composition: Sequences by environment; None counts the items of each environment.
        shares: Target shares by environment.
        values: Further parameters of the statement.
    """
    batch = Batch(
        id=batch_id or uuid.uuid4(),
        run=run,
        kind=kind,
        ordinal=run.served_steps + 1,
        state=BatchState.LEASED,
        epoch=run.epoch,
        policy_step=run.policy_step,
        trainer=trainer,
        fence=1,
        sender=sender,
        sampler=sampler,
        shares=shares or {},
    )
    parameters = {
        "batch": batch.pk,
        "run": run.pk,
        "kind": str(kind),
        "ordinal": batch.ordinal,
        "epoch": batch.epoch,
        "policy_step": batch.policy_step,
        "trainer": trainer.pk,
        "lease_seconds": run.lease_seconds,
        "sender": sender,
        "sampler": sampler,
        "shares": Jsonb(batch.shares),
        "composition": None if composition is None else Jsonb(composition),
        "current_epoch": current.epoch,
        "current_step": current.step,
        **values,
    }
    with database.cursor() as cursor:
        # Prepared, because PostgreSQL takes longer to plan this statement than to run it.
        row = cursor.execute(statement.encode(), parameters, prepare=True).fetchone()
    assert row is not None  # noqa: S101 an aggregate without items has a row
    (
        batch.leased_at,
        batch.lease_expires_at,
        batch.sending_since,
        batch.items,
        batch.sequences,
        batch.size_bytes,
        batch.tokens,
        batch.longest_tokens,
        made_of,
        staleness,
    ) = row
    batch.composition, batch.staleness = json.loads(made_of), json.loads(staleness)
    return batch
