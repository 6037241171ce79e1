"""Items of a batch, without their bytes."""

from typing import Any, Final, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from buffer.batches.schemas.queues import BatchItem
from buffer.items.models.items import Batch, FragmentChunk, TrajectoryGroup
from buffer.items.models.uses import BatchUse
from buffer.items.rules.states import ItemKind
from runs.lifecycle.models.runs import Environment, Run

M = TypeVar("M", bound=Model)
ITEMS_AT_MOST: Final = 1000


def batch_and_items(
    run: Run, batch_id: UUID, *, after: int | None, limit: int
) -> tuple[Batch, list[BatchItem]] | None:
    """Return a batch and its items by position; None if the run has no such batch.

    A batch that was split up no longer lists the items that returned to the queue.

    Args:
        run: The run.
        batch_id: Id of the batch.
        after: Only items with a higher position.
        limit: Maximum number of items.
    """
    found = Batch.objects.filter(run=run, pk=batch_id).select_related("trainer").first()
    if found is None:
        return None
    if found.kind == ItemKind.FRAGMENTS:
        fragments = _fragments(found, after=after, limit=limit)
        return found, [_of_fragment(row, place, found) for place, row in fragments]
    names = dict(Environment.objects.filter(run=run).values_list("env_id", "wandb_name"))
    groups = _by_position(TrajectoryGroup.objects.filter(batch=found), after=after, limit=limit)
    return found, [_of_group(row, found, names) for row in groups]


def _fragments(batch: Batch, *, after: int | None, limit: int) -> list[tuple[int, FragmentChunk]]:
    if not batch.sampler:
        rows = FragmentChunk.objects.filter(batch=batch)
        found = _by_position(rows, after=after, limit=limit)
        return [(row.position or 0, row) for row in found]
    uses = BatchUse.objects.filter(batch=batch).select_related("item")
    return [(use.position, use.item) for use in _by_position(uses, after=after, limit=limit)]


def _by_position(rows: QuerySet[M], *, after: int | None, limit: int) -> list[M]:
    if after is not None:
        rows = rows.filter(position__gt=after)
    return list(rows.order_by("position")[:limit])


def _behind(batch: Batch, epoch: int, step: int | None) -> int | None:
    """Return the versions by which an item is behind its batch; None across epochs."""
    if step is None or epoch != batch.epoch:
        return None
    return max(0, batch.policy_step - step)


def _of_group(row: TrajectoryGroup, batch: Batch, names: dict[int, str]) -> BatchItem:
    named: Any = names.get(row.env_id) if row.env_id is not None else None
    return BatchItem(
        id=row.pk,
        position=row.position or 0,
        environment=named or "without an environment",
        env_id=row.env_id,
        policy_step=row.policy_step,
        staleness=_behind(batch, row.epoch, row.policy_step),
        received_at=row.received_at,
        size_bytes=row.size_bytes,
        sequences=row.sequences,
        tokens=row.tokens,
        longest_tokens=row.longest_tokens,
        score_mean=row.score_mean,
        steps=None,
        state=row.state,
        drop_reason=row.drop_reason,
    )


def _of_fragment(row: FragmentChunk, position: int, batch: Batch) -> BatchItem:
    return BatchItem(
        id=row.pk,
        position=position,
        environment=row.environment,
        env_id=None,
        policy_step=row.version_min,
        staleness=_behind(batch, row.epoch, row.version_min),
        received_at=row.received_at,
        size_bytes=row.size_bytes,
        sequences=1,
        tokens=None,
        longest_tokens=None,
        score_mean=None,
        steps=row.steps,
        state=row.state,
        drop_reason=row.drop_reason,
    )
