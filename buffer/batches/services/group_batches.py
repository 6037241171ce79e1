"""Form and lease batches of groups, with one statement after the plan."""

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.db import connection
from psycopg.types.json import Jsonb

from buffer.batches.rules.batch_plan import BatchPlan, NoPlan
from buffer.batches.services.planning import Planned, group_ids, plan_next
from buffer.items.models.items import Batch
from buffer.items.rules.environments import NO_ENVIRONMENT
from buffer.items.rules.states import BatchState, ItemKind, ItemState
from buffer.items.services.tallies import ADD_MOVED_GROUPS
from buffer.payloads.services.contents import Reading
from runs.lifecycle.models.runs import Run, Trainer
from runs.lifecycle.rules.versions import version_in_force
from web import database

# Leases and counts the groups, creates the batch from them, increments the run's ordinal and
# updates the debts.
_FORM: Final = f"""
    WITH moved AS (
        UPDATE buffer_trajectorygroup g
        SET state = 'leased', batch_id = %(batch)s, position = p.place - 1
        FROM unnest(%(groups)s::bigint[]) WITH ORDINALITY AS p(id, place)
        -- An array, and a state expression without index: see `add_sampled_chunks`.
        WHERE g.id = ANY(%(groups)s::bigint[]) AND g.id = p.id AND g.run_id = %(run)s
            AND COALESCE(g.state, '') = 'queued'
        RETURNING g.env_id, g.sequences, g.size_bytes, g.tokens, g.longest_tokens, g.epoch,
            g.policy_step
    ), made AS (
        INSERT INTO buffer_batch
            (id, run_id, kind, ordinal, state, epoch, policy_step, trainer_id, fence, leased_at,
             lease_expires_at, sender, sending_since, lease_expiries, items, sequences,
             size_bytes, tokens, longest_tokens, composition, shares, staleness)
        SELECT %(batch)s, %(run)s, 'groups', %(ordinal)s, 'leased', %(epoch)s, %(policy_step)s,
            %(trainer)s, 1, statement_timestamp(),
            statement_timestamp() + make_interval(secs => %(lease_seconds)s), %(sender)s::text,
            CASE WHEN %(sender)s::text <> '' THEN statement_timestamp() END, 0, COUNT(*),
            SUM(sequences), SUM(size_bytes), SUM(tokens), MAX(longest_tokens), %(composition)s,
            %(shares)s, (
                SELECT COALESCE(jsonb_object_agg(behind, items), '{{}}') FROM (
                    SELECT GREATEST(%(current_step)s - policy_step, 0) AS behind, COUNT(*) AS items
                    FROM moved WHERE epoch = %(current_epoch)s AND policy_step IS NOT NULL
                    GROUP BY 1
                ) AS b
            )
        FROM moved
        RETURNING leased_at, lease_expires_at, sending_since, items, sequences, size_bytes,
            tokens, longest_tokens, staleness
    ), stepped AS (
        UPDATE runs_run SET served_steps = %(ordinal)s WHERE id = %(run)s
    ), unblocked AS (
        UPDATE buffer_mixingshare SET blocks_since = NULL
        WHERE run_id = %(run)s AND blocks_since IS NOT NULL AND env_id <> ALL(%(env_ids)s::int[])
    ), mixed AS (
        INSERT INTO buffer_mixingshare AS m (run_id, env_id, sequences, debt, target)
        SELECT %(run)s, *
        FROM unnest(%(env_ids)s::int[], %(taken)s::bigint[], %(debts)s::float8[],
                    %(targets)s::float8[])
        ON CONFLICT (run_id, env_id) DO UPDATE
        SET sequences = m.sequences + excluded.sequences, debt = excluded.debt,
            target = excluded.target, blocks_since = NULL
    ), counted AS ({ADD_MOVED_GROUPS})
    SELECT * FROM made"""  # noqa: S608 made of constants
_CONFIRM: Final = f"""
    WITH confirmed AS (
        UPDATE buffer_batch SET state = 'confirmed', settled_at = statement_timestamp()
        WHERE id = %(batch)s AND state IN ('leased', 'returned', 'quarantined')
    ), moved AS (
        UPDATE buffer_trajectorygroup SET state = %(to)s::text
        WHERE batch_id = %(batch)s AND state = %(source)s::text
        RETURNING epoch, env_id, sequences, size_bytes
    ) {ADD_MOVED_GROUPS}"""  # noqa: S608 made of constants
_RECORD_WAITING: Final = """
    WITH waits AS (SELECT unnest(%(waiting)s::int[]) AS env_id), unblocked AS (
        UPDATE buffer_mixingshare SET blocks_since = NULL
        WHERE run_id = %(run)s AND blocks_since IS NOT NULL
        AND env_id NOT IN (SELECT env_id FROM waits)
    )
    INSERT INTO buffer_mixingshare (run_id, env_id, sequences, debt, target, blocks_since)
    SELECT %(run)s, env_id, 0, 0, 0, %(since)s FROM waits
    ON CONFLICT (run_id, env_id) DO UPDATE SET blocks_since = excluded.blocks_since"""


_SUBTRACT_SHARES: Final = """
    UPDATE buffer_mixingshare m SET sequences = m.sequences - c.value::bigint
    FROM buffer_batch b, jsonb_each_text(b.composition) AS c
    WHERE b.id = %s AND m.run_id = b.run_id
    AND m.env_id = COALESCE(NULLIF(c.key, '')::int, -1)"""


class GroupsMoved(RuntimeError):
    """Queued groups of a run were moved without its lock."""


def form_and_lease(
    run: Run, trainer: Trainer, *, sender: str, reads_ahead: bool
) -> tuple[Batch, Reading | None] | None:
    """Form and lease the next batch of an external run; return None if none is ready.

    The caller holds the run's lock.

    Args:
        run: The run.
        trainer: The trainer that gets the batch.
        sender: The process that will send it, if it must record the delivery.
        reads_ahead: Start to read the bytes of the groups before they are leased.
    """
    if run.batch_size is None:
        return None
    planned = plan_next(run, batch_size=run.batch_size)
    if isinstance(planned.plan, NoPlan):
        _record_waiting(run.pk, planned.plan, planned)
        return None
    groups = group_ids(run.pk, planned.plan)
    reading = None
    if reads_ahead and not planned.plan.behind:
        reading = Reading([planned.locations[group_id] for group_id in groups])
    return _write(run, trainer, planned.plan, groups, sender=sender), reading


def confirm(batch: Batch, *, source: ItemState) -> None:
    """Acknowledge a batch as trained on; its groups are in state `source`."""
    moves = {"run": batch.run_id, "batch": batch.pk, "source": source, "to": ItemState.SERVED}
    with database.cursor() as cursor:
        cursor.execute(_CONFIRM, moves, prepare=True)


def subtract_shares(batch: Batch) -> None:
    """Subtract the sequences of a dropped batch from the shares of its environments."""
    with connection.cursor() as cursor:
        cursor.execute(_SUBTRACT_SHARES, [batch.pk])


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
        cursor.execute(_RECORD_WAITING, waits)


def _write(run: Run, trainer: Trainer, plan: BatchPlan, groups: list[int], *, sender: str) -> Batch:
    batch = Batch(
        id=uuid.uuid4(),
        run=run,
        kind=ItemKind.GROUPS,
        ordinal=run.served_steps + 1,
        state=BatchState.LEASED,
        epoch=run.epoch,
        policy_step=run.policy_step,
        trainer=trainer,
        fence=1,
        sender=sender,
        composition=by_name(plan.composition),
        shares=by_name(plan.shares),
        staleness={},
    )
    with database.cursor() as cursor:
        # Prepared, because PostgreSQL takes longer to plan this statement than to run it.
        row = cursor.execute(_FORM, _values(run, batch, plan, groups), prepare=True).fetchone()
    assert row is not None  # noqa: S101 an aggregate without groups has a row
    (
        batch.leased_at,
        batch.lease_expires_at,
        batch.sending_since,
        batch.items,
        batch.sequences,
        batch.size_bytes,
        batch.tokens,
        batch.longest_tokens,
        staleness,
    ) = row
    batch.staleness = json.loads(staleness)
    if batch.sequences != sum(plan.composition.values()):
        raise GroupsMoved(f"groups of {batch} left the queue under the run's lock")
    return batch


def _values(run: Run, batch: Batch, plan: BatchPlan, groups: list[int]) -> dict[str, Any]:
    env_ids = list(plan.debts)
    current = version_in_force(
        epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
    )
    return {
        "current_epoch": current.epoch,
        "current_step": current.step,
        "run": run.pk,
        "source": ItemState.QUEUED,
        "to": ItemState.LEASED,
        "batch": batch.pk,
        "groups": groups,
        "ordinal": batch.ordinal,
        "epoch": batch.epoch,
        "policy_step": batch.policy_step,
        "trainer": batch.trainer_id,
        "lease_seconds": run.lease_seconds,
        "sender": batch.sender,
        "composition": Jsonb(batch.composition),
        "shares": Jsonb(batch.shares),
        "env_ids": env_ids,
        "taken": [plan.composition.get(env_id, 0) for env_id in env_ids],
        "debts": [plan.debts[env_id] for env_id in env_ids],
        "targets": [plan.shares[env_id] for env_id in env_ids],
    }


def by_name(by_environment: Mapping[int, Any]) -> dict[str, Any]:
    """Return values with `env_id` as text keys; ``""`` is the key for no environment."""
    return {
        "" if env_id == NO_ENVIRONMENT else str(env_id): found
        for env_id, found in by_environment.items()
    }
