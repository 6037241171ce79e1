"""Batches by sampling chunks, and their priorities."""

import uuid
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray
from psycopg.rows import class_row

from buffer.items.models import Batch
from buffer.items.rules.states import BatchNotFound, ItemKind, ItemState
from buffer.items.services import (
    Changes,
    ItemsMoved,
    add_sampled_chunks,
    counted,
    insert_batch,
    lock_run,
)
from buffer.payloads.services.eviction import keep_within_capacity
from buffer.replay.rules import NEEDS, Chunks, Sample, SamplerRule, candidate_ids
from runs.config.rules.sections import ReplayConfig, replay_of
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.rules import PolicyVersion
from web import sql
from web.sql import filled, statements_of

# Sampling priorities of fragments, set by trainers.

SQL: Final = statements_of("buffer")


@transaction.atomic
def update_priorities(
    *, run_id: int, priorities: dict[int, float], batch_id: UUID | None = None
) -> int:
    """Set priorities by fragment id; return the number of updated chunks.

    Fragments of other runs, of batches other than `batch_id`, and fragments that can no longer be
    sampled are skipped.

    Args:
        run_id: The run.
        priorities: Priorities greater than 0; a chunk gets the highest of its fragments.
        batch_id: Batch that delivered the fragments, or None for any.

    Raises:
        BatchNotFound: If the run has no such batch.
    """
    if batch_id and not Batch.objects.filter(run_id=run_id, pk=batch_id).exists():
        raise BatchNotFound(f"batch {batch_id} does not exist")
    # Rows are written in any order here and when forming batches: the lock prevents deadlocks.
    lock_run(run_id)
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["update_priorities"],
            {
                "run": run_id,
                "batch": batch_id,
                "ids": list(priorities),
                "priorities": [float(priority) for priority in priorities.values()],
            },
        )
        updated: int = cursor.rowcount
    return updated


# Form batches by sampling chunks, possibly more than once.

_HEADS: Final = "AND chunk = id"
_VALUES: Final = {
    "versions": "version_min::bigint",
    "environments": "hashtext(environment)::bigint",
    "priorities": "COALESCE(priority, 'NaN')",
}
# PostgreSQL sends an array as five integers (dimensions, flags, type, length, first index), then
# each element preceded by its length.
_ARRAY_HEADER_BYTES: Final = 20


class _Queued(NamedTuple):
    """The queued fragments of a run's epoch."""

    items: int
    first_id: int | None
    last_id: int | None


def form_of_sample(run: Run, trainer: Trainer, count: int, *, sender: str) -> Batch | None:
    """Form and lease a batch of `count` sampled fragments; return None if there are too few.

    The caller holds the run's lock. The same state of a run gives the same batch.

    Raises:
        ItemsMoved: If chunks were evicted without the lock.
    """
    replay = replay_of(run.config)
    changes = Changes(run.pk, ItemKind.FRAGMENTS)
    with sql.cursor(class_row(_Queued)) as cursor:
        queued = cursor.execute(
            SQL["queued_range"], {"run": run.pk, "epoch": run.epoch}, prepare=True
        ).fetchone() or _Queued(0, None, None)
    evicted = keep_within_capacity(run, changes, queued=queued.items)
    queued = queued._replace(items=queued.items - evicted)
    chunks_wanted, left_over = divmod(count, replay.fragments_per_chunk)
    if left_over or queued.items < count:
        changes.write()
        return None
    sample = _sample(run, replay, chunks_wanted, queued=queued)
    if sample is None:
        changes.write()
        return None
    batch_id = uuid.uuid4()
    rows = add_sampled_chunks(
        batch_id,
        sample.ids.tolist(),
        sample.importance_weights.tolist(),
        max_reuse=replay.max_reuse,
        chunked=replay.fragments_per_chunk > 1,
    )
    ended = [
        counted(run.epoch, size, environment)
        for environment, size, state in rows
        if state == ItemState.LEASED
    ]
    changes.move(ended, ItemState.QUEUED, ItemState.LEASED)
    batch = insert_batch(
        SQL["create_sampled_batch"],
        run,
        trainer,
        kind=ItemKind.FRAGMENTS,
        sender=sender,
        current=PolicyVersion(run.epoch, run.policy_step),
        batch_id=batch_id,
        sampler=replay.sampler,
    )
    if batch.items != count:
        raise ItemsMoved(f"{batch} has {batch.items} fragments instead of {count}")
    changes.write()
    return batch


def _sample(run: Run, replay: ReplayConfig, count: int, *, queued: _Queued) -> Sample | None:
    """Return `count` sampled chunks, or None if there are fewer."""
    seed = [run.config.get("seed", run.pk), run.epoch, run.served_steps]
    if replay.sampler == "uniform":
        ids = _uniform(run, replay, count, np.random.default_rng(seed), queued=queued)
        if len(ids) == count:
            return Sample(ids=np.array(ids), importance_weights=np.ones(count))
    chunks = _load(run, replay, count)
    if len(chunks.ids) < count:
        return None
    rule = SamplerRule(name=replay.sampler, alpha=replay.alpha, beta=replay.beta)
    return rule.sample(chunks, count, np.random.default_rng(seed))


def _uniform(
    run: Run, replay: ReplayConfig, count: int, rng: np.random.Generator, *, queued: _Queued
) -> list[int]:
    """Return the ids of a uniform sample without reading all ids; fewer if that fails."""
    if queued.first_id is None or queued.last_id is None:
        return []
    drawn = candidate_ids(
        queued.first_id,
        queued.last_id,
        available=queued.items // replay.fragments_per_chunk,
        count=count,
        rng=rng,
    )
    if drawn is None:
        return []
    candidates = drawn.tolist()
    heads = _HEADS if replay.fragments_per_chunk > 1 else ""
    with sql.cursor() as cursor:
        rows = cursor.execute(
            filled(SQL["available_chunks"], heads=heads).encode(),
            {"run": run.pk, "epoch": run.epoch, "ids": candidates},
            prepare=True,
        ).fetchall()
    found = {item_id for (item_id,) in rows}
    return [item_id for item_id in candidates if item_id in found][:count]


def _load(run: Run, replay: ReplayConfig, count: int) -> Chunks:
    """Return the chunks to sample from, with one query."""
    needs = NEEDS.get(replay.sampler)
    query = filled(
        SQL["load_chunks"],
        value=_VALUES[needs] if needs else "NULL",
        values="array_agg(c.value)" if needs else "NULL",
        heads=_HEADS if replay.fragments_per_chunk > 1 else "",
        limit=f"LIMIT {count}" if replay.sampler == "fifo" else "",
    )
    with sql.cursor() as cursor:
        cursor.execute(query.encode(), [run.pk, run.epoch], binary=True, prepare=True)
        result = cursor.pgresult
        ids, values = (result.get_value(0, column) for column in (0, 1)) if result else (None, None)
    dtype = np.float64 if needs == "priorities" else np.int64
    read: dict[str, Any] = {needs: _read(values, dtype)} if needs else {}
    return Chunks(ids=_read(ids, np.int64), **read)


def _read(raw: bytes | None, dtype: type[Any]) -> NDArray[Any]:
    """Decode a binary PostgreSQL array of non-null eight-byte numbers, ``[N]``."""
    big_endian = np.dtype(dtype).newbyteorder(">")
    elements = np.dtype([("length", ">i4"), ("value", big_endian)])
    return np.frombuffer((raw or b"")[_ARRAY_HEADER_BYTES:], elements)["value"].astype(dtype)
