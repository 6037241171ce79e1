"""Batches of a run: their items, those of a period, and their tokens."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import Max, Model, QuerySet, Sum

from buffer.batches.schemas import BatchItem
from buffer.items.models import Batch, BatchUse, FragmentChunk, TrajectoryGroup
from buffer.items.rules.states import ItemKind
from runs.lifecycle.models import Environment, Run

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
        fragments: list[tuple[int, FragmentChunk]]
        if found.sampler:
            uses = BatchUse.objects.filter(batch=found).select_related("item")
            some = _by_position(uses, after=after, limit=limit)
            fragments = [(use.position, use.item) for use in some]
        else:
            chunks = FragmentChunk.objects.filter(batch=found)
            some_chunks = _by_position(chunks, after=after, limit=limit)
            fragments = [(row.position or 0, row) for row in some_chunks]
        return found, [
            BatchItem(
                id=row.pk,
                position=place,
                environment=row.environment,
                env_id=None,
                policy_step=row.version_min,
                staleness=_behind(found, row.epoch, row.version_min),
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
            for place, row in fragments
        ]
    names = dict(Environment.objects.filter(run=run).values_list("env_id", "wandb_name"))
    groups = _by_position(TrajectoryGroup.objects.filter(batch=found), after=after, limit=limit)
    return found, [
        BatchItem(
            id=group.pk,
            position=group.position or 0,
            environment=("" if group.env_id is None else names.get(group.env_id, ""))
            or "without an environment",
            env_id=group.env_id,
            policy_step=group.policy_step,
            staleness=_behind(found, group.epoch, group.policy_step),
            received_at=group.received_at,
            size_bytes=group.size_bytes,
            sequences=group.sequences,
            tokens=group.tokens,
            longest_tokens=group.longest_tokens,
            score_mean=group.score_mean,
            steps=None,
            state=group.state,
            drop_reason=group.drop_reason,
        )
        for group in groups
    ]


def _by_position(rows: QuerySet[M], *, after: int | None, limit: int) -> list[M]:
    if after is not None:
        rows = rows.filter(position__gt=after)
    return list(rows.order_by("position")[:limit])


def _behind(batch: Batch, epoch: int, step: int | None) -> int | None:
    """Return the versions by which an item is behind its batch; None across epochs."""
    if step is None or epoch != batch.epoch:
        return None
    return max(0, batch.policy_step - step)


BATCHES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyBatches:
    """Batches of a period."""

    handed_out: int
    """Number of batches leased in the period, or that took its data."""
    batches: list[Batch]
    """The newest of these batches and the last one before the period, newest first; for arrivals,
    only these batches."""


def nearby_batches(
    run_id: int, *, began_at: datetime, ended_at: datetime, of_arrivals: bool = False
) -> NearbyBatches:
    """Return the batches leased from `began_at` to `ended_at`, and the last one before.

    Ordinals count batches in the order of their first lease, so a binary search finds a time among
    millions of batches. A batch that was leased again keeps its ordinal.

    Args:
        run_id: Id of the run.
        began_at: Begin of the period.
        ended_at: End of the period.
        of_arrivals: Return the batches that took the data that arrived in the period instead: those
            leased in it, and the first one after it.
    """
    of_run = Batch.objects.filter(run_id=run_id)
    newest = of_run.order_by("-ordinal").values_list("ordinal", flat=True).first() or 0
    if of_arrivals:
        first = _leased(run_id, began_at, bisect_left, newest=newest) + 1
        last = min(newest, _leased(run_id, ended_at, bisect_left, newest=newest) + 1)
        handed_out = max(0, last - first + 1)
    else:
        first = _leased(run_id, began_at, bisect_right, newest=newest)
        last = _leased(run_id, ended_at, bisect_right, newest=newest)
        handed_out = last - first
    first = max(1, first, last - BATCHES_SHOWN + 1)
    found = of_run.filter(ordinal__gte=first, ordinal__lte=last).select_related("trainer")
    return NearbyBatches(handed_out=handed_out, batches=list(found.order_by("-ordinal")))


def _leased(run_id: int, moment: datetime, bisect: Callable[..., int], *, newest: int) -> int:
    """Return the ordinal of the last batch leased before `moment`, or up to it; 0 if none was."""

    def leased_at(ordinal: int) -> datetime:
        rows = Batch.objects.filter(run_id=run_id, ordinal__gte=ordinal).order_by("ordinal")
        return rows.values_list("leased_at", flat=True)[0]

    return bisect(range(1, newest + 1), moment, key=leased_at)


class ServedTokens(NamedTuple):
    """Tokens of batches, and the ordinal of the last batch."""

    tokens: int
    ordinal: int


def served_tokens_after(run_id: int, *, after_ordinal: int) -> ServedTokens:
    """Return the tokens of a run's batches after batch `after_ordinal`; 0 for fragments."""
    later = Batch.objects.filter(run_id=run_id, ordinal__gt=after_ordinal)
    found = later.aggregate(tokens=Sum("tokens"), ordinal=Max("ordinal"))
    return ServedTokens(int(found["tokens"] or 0), int(found["ordinal"] or after_ordinal))
