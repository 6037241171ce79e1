"""Incremental statistics of the groups and batches of a run.

Each call continues where the last one ended, so no item is counted twice. It reads a bounded
number of the newest rows, so its cost does not grow with the age of the run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from buffer.items.models import Batch
from web import sql
from web.sql import statements_of

SQL: Final = statements_of("buffer")

GROUPS_AT_MOST: Final = 20_000
BATCHES_AT_MOST: Final = 2_000


class RunCounts(NamedTuple):
    """Counts of one run."""

    accepted: int = 0
    """Groups or fragments ever accepted."""
    queued: int = 0
    """Queued sequences or fragments."""
    without_variance: int = 0
    """Groups dropped on arrival for zero variance."""


class FlowCursor(NamedTuple):
    """Cursor: the last group that was read, in the order of transactions."""

    written_in: int = 0
    item_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFlow:
    """Statistics of the groups after a cursor, without those dropped on arrival."""

    last: FlowCursor
    groups: int
    without_variance: int
    first_at: datetime | None
    """Arrival time of the first group; None without groups."""
    mean_tokens: float | None
    """Mean length of a sequence."""
    longest_tokens: float | None
    """Length of the longest sequence."""
    score_mean: float | None
    """Mean of the groups' mean scores; None if none is finite."""
    score_percentiles: Sequence[float] | None
    """10th, 50th and 90th percentile of the groups' mean scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFlow:
    """Statistics of the batches after an ordinal, at their first lease."""

    last: int
    """Ordinal of the newest batch."""
    items: int = 0
    first_at: datetime | None = None
    staleness: Mapping[int, int] = field(default_factory=dict)
    """Items by versions behind."""


def run_counts(run_ids: Sequence[int]) -> dict[int, RunCounts]:
    """Return the counts of runs; runs without items are omitted."""
    with sql.cursor() as cursor:
        rows = cursor.execute(SQL["counts_of_runs"], [list(run_ids)]).fetchall()
    return {run_id: RunCounts(*counts) for run_id, *counts in rows}


def group_flow(run_id: int, *, after: FlowCursor) -> GroupFlow:
    """Return statistics of the newest :data:`GROUPS_AT_MOST` groups of a run after a cursor.

    Groups of open transactions are left to the next call.
    """
    written_in, item_id, groups, equal, first_at, *rest = _row(SQL["groups_after"], run_id, after)
    mean_tokens, longest_tokens, score_mean, score_percentiles = rest
    return GroupFlow(
        last=FlowCursor(written_in, item_id) if groups else after,
        groups=groups,
        without_variance=equal,
        first_at=first_at,
        mean_tokens=mean_tokens,
        longest_tokens=longest_tokens,
        score_mean=score_mean,
        score_percentiles=score_percentiles,
    )


def cut_flow(run_id: int, *, after: FlowCursor) -> tuple[FlowCursor, float | None]:
    """Return the cursor of the last digested group, and the truncated share of sequences since.

    Truncation is read from digests, so groups without a digest are left to the next call. The
    share is None if no group has been digested since `after`.
    """
    written_in, item_id, share = _row(SQL["truncated_after"], run_id, after)
    return (after if item_id is None else FlowCursor(written_in, item_id)), share


def _row(query: str, run_id: int, after: FlowCursor) -> tuple[Any, ...]:
    parameters = {
        "run": run_id,
        "written_in": str(after.written_in),
        "item": after.item_id,
        "limit": GROUPS_AT_MOST,
    }
    with sql.cursor() as cursor:
        row: tuple[Any, ...] | None = cursor.execute(query, parameters).fetchone()
    assert row is not None  # noqa: S101 an aggregate without GROUP BY is one row
    return row


def batch_flow(run_id: int, *, after: int) -> BatchFlow:
    """Return statistics of the newest :data:`BATCHES_AT_MOST` batches after ordinal `after`."""
    later = Batch.objects.filter(run_id=run_id, ordinal__gt=after).order_by("-ordinal")
    rows = list(later.values_list("ordinal", "items", "leased_at", "staleness")[:BATCHES_AT_MOST])
    if not rows:
        return BatchFlow(last=after)
    return BatchFlow(
        last=rows[0][0],
        items=sum(items for _, items, _, _ in rows),
        first_at=min(at for _, _, at, _ in rows),
        staleness=_by_versions(staleness for *_, staleness in rows),
    )


def _by_versions(staleness: Iterable[Mapping[str, int]]) -> Counter[int]:
    """Return items by versions behind; items of unknown version are omitted."""
    found: Counter[int] = Counter()
    for one in staleness:
        for behind, items in one.items():
            if behind.lstrip("-").isdigit():
                found[int(behind)] += items
    return found
