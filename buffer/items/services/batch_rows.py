"""Rows of new batches, made from the rows of their items in one statement."""

import json
import uuid
from typing import Any, Final

from psycopg.types.json import Jsonb

from buffer.items.models.items import Batch
from buffer.items.rules.states import BatchState, ItemKind
from runs.lifecycle.models.runs import Run, Trainer
from runs.lifecycle.rules.versions import PolicyVersion
from web import database

INSERT_BATCH: Final = """
    stepped AS (
        UPDATE runs_run SET served_steps = %(ordinal)s WHERE id = %(run)s
    ), made AS (
        INSERT INTO buffer_batch
            (id, run_id, kind, ordinal, state, epoch, policy_step, trainer_id, fence, leased_at,
             lease_expires_at, sender, sending_since, lease_expiries, sampler, shares, items,
             sequences, size_bytes, tokens, longest_tokens, composition, staleness)
        SELECT %(batch)s, %(run)s, %(kind)s, %(ordinal)s, 'leased', %(epoch)s, %(policy_step)s,
            %(trainer)s, 1, statement_timestamp(),
            statement_timestamp() + make_interval(secs => %(lease_seconds)s), %(sender)s::text,
            CASE WHEN %(sender)s::text <> '' THEN statement_timestamp() END, 0, %(sampler)s,
            %(shares)s, COUNT(*), COALESCE(SUM(sequences), 0), COALESCE(SUM(size_bytes), 0),
            COALESCE(SUM(tokens), 0), COALESCE(MAX(longest_tokens), 0),
            COALESCE(%(composition)s::jsonb, (
                SELECT jsonb_object_agg(environment, items) FROM (
                    SELECT environment, COUNT(*) AS items FROM moved GROUP BY 1
                ) AS e
            ), '{}'), (
                SELECT COALESCE(jsonb_object_agg(behind, items), '{}') FROM (
                    SELECT GREATEST(%(current_step)s - policy_step, 0) AS behind, COUNT(*) AS items
                    FROM moved WHERE epoch = %(current_epoch)s AND policy_step IS NOT NULL
                    GROUP BY 1
                ) AS b
            )
        FROM moved
        RETURNING leased_at, lease_expires_at, sending_since, items, sequences, size_bytes,
            tokens, longest_tokens, composition, staleness
    )"""
"""CTEs that make a batch from its items in the CTE ``moved``, as the run's next ordinal."""


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
        statement: Statement with the CTEs ``moved`` and :data:`INSERT_BATCH`.
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
