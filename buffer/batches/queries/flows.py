"""Incremental statistics of the groups and batches of a run.

Each call continues where the last one ended, so no item is counted twice. It reads a bounded
number of the newest rows, so its cost does not grow with the age of the run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from buffer.items.models.items import Batch
from web import database

GROUPS_AT_MOST: Final = 20_000
BATCHES_AT_MOST: Final = 2_000

_COUNTS: Final = """
    SELECT run_id,
        COALESCE(SUM(items) FILTER (WHERE state = 'accepted'), 0)::bigint,
        COALESCE(SUM(sequences) FILTER (WHERE state = 'queued'), 0)::bigint,
        COALESCE(SUM(items) FILTER (WHERE reason = 'zero_variance'), 0)::bigint
    FROM buffer_tally WHERE run_id = ANY(%s) GROUP BY run_id"""
# Rows of finished transactions, or of this one: no group can still appear before these.
_GROUPS: Final = """
    WITH new AS MATERIALIZED (
        SELECT i.written_in, i.id, i.received_at, i.sequences, i.tokens, i.longest_tokens,
            i.score_mean, i.score_min = i.score_max AS is_equal
        FROM buffer_trajectorygroup i
        WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
        AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
        AND (i.written_in < pg_snapshot_xmin(pg_current_snapshot())
            OR i.written_in = pg_current_xact_id_if_assigned())
        ORDER BY i.written_in DESC, i.id DESC LIMIT %(limit)s
    )
    SELECT (SELECT n.written_in::text::bigint FROM new n
            ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
        (SELECT n.id FROM new n ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
        count(*), count(*) FILTER (WHERE is_equal), min(received_at),
        sum(tokens)::float8 / sum(sequences), max(longest_tokens)::float8,
        avg(score_mean::numeric) FILTER (WHERE abs(score_mean) < 'Infinity')::float8,
        percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY score_mean)
            FILTER (WHERE abs(score_mean) < 'Infinity')
    FROM new"""
# Digests follow the groups in the order of transactions, with a delay.
_CUT: Final = """
    WITH new AS MATERIALIZED (
        SELECT i.written_in, i.id, i.sequences
        FROM buffer_digestcursor c CROSS JOIN LATERAL (
            SELECT g.written_in, g.id, g.sequences FROM buffer_trajectorygroup g
            WHERE g.run_id = c.run_id AND g.segment IS NOT NULL
            AND (g.written_in, g.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
            AND (g.written_in, g.id) <= (c.written_in, c.item_id)
            ORDER BY g.written_in DESC, g.id DESC LIMIT %(limit)s
        ) i WHERE c.run_id = %(run)s
    )
    SELECT (SELECT n.written_in::text::bigint FROM new n
            ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
        (SELECT n.id FROM new n ORDER BY n.written_in DESC, n.id DESC LIMIT 1),
        sum(d.truncated)::float8 / sum(new.sequences)
    FROM new JOIN buffer_groupdigest d ON d.group_id = new.id"""


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
    with database.cursor() as cursor:
        rows = cursor.execute(_COUNTS, [list(run_ids)]).fetchall()
    return {run_id: RunCounts(*counts) for run_id, *counts in rows}


def group_flow(run_id: int, *, after: FlowCursor) -> GroupFlow:
    """Return statistics of the newest :data:`GROUPS_AT_MOST` groups of a run after a cursor.

    Groups of open transactions are left to the next call.
    """
    written_in, item_id, groups, equal, first_at, *rest = _row(_GROUPS, run_id, after)
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
    written_in, item_id, share = _row(_CUT, run_id, after)
    return (after if item_id is None else FlowCursor(written_in, item_id)), share


def _row(query: str, run_id: int, after: FlowCursor) -> tuple[Any, ...]:
    parameters = {
        "run": run_id,
        "written_in": str(after.written_in),
        "item": after.item_id,
        "limit": GROUPS_AT_MOST,
    }
    with database.cursor() as cursor:
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
