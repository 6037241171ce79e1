"""Rows of batches of fragments."""

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from psycopg.types.json import Jsonb

from buffer.items.models.items import Batch
from buffer.items.rules.states import BatchState, ItemKind
from runs.lifecycle.models.runs import Run, Trainer
from web import database

_WRITTEN: Final = [
    *("ordinal", "epoch", "policy_step", "sender", "items", "sequences", "size_bytes", "sampler")
]
_CREATE: Final = """
    WITH stepped AS (UPDATE runs_run SET served_steps = %(ordinal)s WHERE id = %(run)s)
    INSERT INTO buffer_batch
        (id, run_id, kind, ordinal, state, epoch, policy_step, trainer_id, fence, leased_at,
         lease_expires_at, sender, sending_since, lease_expiries, items, sequences,
         size_bytes, tokens, longest_tokens, sampler, composition, shares, staleness)
    VALUES (%(id)s, %(run)s, 'fragments', %(ordinal)s, 'leased', %(epoch)s, %(policy_step)s,
        %(trainer)s, 1, statement_timestamp(),
        statement_timestamp() + make_interval(secs => %(lease_seconds)s), %(sender)s::text,
        CASE WHEN %(sender)s::text <> '' THEN statement_timestamp() END, 0, %(items)s,
        %(sequences)s, %(size_bytes)s, 0, 0, %(sampler)s, %(composition)s, '{}', %(staleness)s)
    RETURNING leased_at, lease_expires_at, sending_since"""


class BatchFragment(NamedTuple):
    """The attributes of a fragment that its batch needs."""

    version_min: int
    environment: str
    size_bytes: int


def create_batch(
    run: Run,
    trainer: Trainer,
    members: Sequence[BatchFragment],
    *,
    sender: str,
    batch_id: uuid.UUID | None = None,
    sampler: str = "",
) -> Batch:
    """Create a batch with the run's next ordinal, leased to a trainer."""
    batch = Batch(
        id=batch_id or uuid.uuid4(),
        run=run,
        kind=ItemKind.FRAGMENTS,
        ordinal=run.served_steps + 1,
        state=BatchState.LEASED,
        epoch=run.epoch,
        policy_step=run.policy_step,
        trainer=trainer,
        fence=1,
        sender=sender,
        items=len(members),
        sequences=len(members),
        size_bytes=sum(member.size_bytes for member in members),
        sampler=sampler,
        composition=Counter(member.environment for member in members),
        staleness=Counter(str(run.policy_step - member.version_min) for member in members),
    )
    values = {name: getattr(batch, name) for name in _WRITTEN} | {
        "id": batch.pk,
        "run": run.pk,
        "trainer": trainer.pk,
        "lease_seconds": run.lease_seconds,
        "composition": Jsonb(batch.composition),
        "staleness": Jsonb(batch.staleness),
    }
    with database.cursor() as cursor:
        row = cursor.execute(_CREATE, values, prepare=True).fetchone()
    assert row is not None  # noqa: S101 one row was inserted
    batch.leased_at, batch.lease_expires_at, batch.sending_since = row
    return batch
