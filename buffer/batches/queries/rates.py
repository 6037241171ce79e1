"""Rates and statistics of a run's arrivals, batches and trainers, from few rows.

Flows continue where the last call ended, so no item is counted twice. Their cost does not grow
with the age of the run.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Avg, F

from buffer.batches.rules.pacing import by_versions, mean_versions, waiting_share, window_seconds
from buffer.batches.schemas import EnvironmentPushRate
from buffer.items.models import Batch, BatchUse, FragmentChunk, TrajectoryGroup
from buffer.items.rules.states import STALE_REASONS, BatchState, ItemKind
from runs.lifecycle.models import Run, Trainer
from web import sql
from web.sql import filled, statements_of

SQL: Final = statements_of("buffer")

RATES_WINDOW: Final = timedelta(seconds=60)
ITEMS_AT_MOST: Final = 2000
"""Maximum number of items read, newest first; with more arrivals, rates cover a shorter time."""
BATCHES_AT_MOST: Final = 200
"""Maximum number of batches read, newest first."""
STALE_WINDOW: Final = timedelta(minutes=5)
"""Longer than the others: an item is dropped only when its batch would have been formed."""
STALE_AMONG: Final = 20
"""Minimum number of items that left the queue, for a share of stale ones."""
_OF_GROUPS: Final = filled(SQL["arrived"], units="sequences", table="buffer_trajectorygroup")
_OF_FRAGMENTS: Final = filled(SQL["arrived"], units="1", table="buffer_fragmentchunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Recent data rates of a run; amounts count sequences, or fragments of a fleet run.

    Arrivals are those of the last minute; batches are those of a minute, or of two cycles of a
    slower trainer. None means no activity.
    """

    arriving: float | None
    """Stored arrivals per second, without those that were dropped on arrival."""
    arrived_at: datetime | None
    """Time of the newest stored arrival."""
    stale_share: float | None
    """Share of the items that left the queue which were dropped as stale, of the last arrivals."""
    handed_out: float | None
    """Amount leased per second."""
    batches: float | None
    """Batches leased per second."""
    delivery_seconds: Sequence[float] = ()
    """Time of each batch from its lease to its last byte."""
    train_seconds: Sequence[float] = ()
    """Time of each acknowledged batch from its last byte, or from the acknowledgement before it if
    its trainer held several, to its acknowledgement."""
    holding_seconds: float | None = None
    """Longest time since a trainer that holds batches received one or acknowledged one."""
    since_lease_seconds: float | None = None
    """Age of the newest lease."""
    fetched_again: tuple[int, int] | None = None
    """Number of the leased batch that its trainer fetched most often, and how often; None without
    a leased batch, or if its trainer acknowledges by its next request."""


class _Lease(NamedTuple):
    leased_at: datetime
    delivered_at: datetime | None
    settled_at: datetime | None
    state: str
    sequences: int
    trainer: int | None
    ordinal: int
    fence: int
    lease_expiries: int
    is_stock: bool | None


def rates_of(run: Run, *, since: datetime | None = None, now: datetime) -> Rates:
    """Return the recent data rates of a run.

    Args:
        run: The run.
        since: Earliest time of a measurement, for instance the last change of the run's status.
        now: Present time.
    """
    longest = timedelta.max if since is None else max(now - since, timedelta(seconds=1))
    newest = Batch.objects.filter(run=run).order_by("-ordinal")
    columns = (
        *("leased_at", "delivered_at", "settled_at", "state", "sequences", "trainer"),
        *("ordinal", "fence", "lease_expiries", "trainer__is_stock"),
    )
    leases = [_Lease(*row) for row in newest.values_list(*columns)[:BATCHES_AT_MOST]]
    # Each fetch and each lease after an expiry raises the fence.
    fetches = [
        (one.fence - one.lease_expiries, one.ordinal)
        for one in leases
        if one.state == "leased" and not one.is_stock
    ]
    most, ordinal = max(fetches, default=(0, 0))
    starts = ((lease.trainer, lease.leased_at.timestamp()) for lease in leases)
    window = min(longest, timedelta(seconds=window_seconds(starts, now=now.timestamp())))
    found = [lease for lease in leases if lease.leased_at > now - window]
    # At the row limit, the leases cover less than the window.
    covered = window
    if len(found) >= BATCHES_AT_MOST:
        covered = now - min(lease.leased_at for lease in found)
    seconds = max(0.001, covered.total_seconds())
    return Rates(
        **_arrivals(run, longest=longest, now=now),
        handed_out=sum(lease.sequences for lease in found) / seconds if found else None,
        batches=len(found) / seconds if found else None,
        delivery_seconds=[
            _between(lease.leased_at, lease.delivered_at) for lease in found if lease.delivered_at
        ],
        train_seconds=list(_train_seconds(leases, since=now - window)),
        holding_seconds=_holding_seconds(leases, now=now),
        since_lease_seconds=_between(max(one.leased_at for one in leases), now) if leases else None,
        fetched_again=(ordinal, most) if fetches else None,
    )


def _train_seconds(leases: Sequence[_Lease], *, since: datetime) -> Iterator[float]:
    """Yield the time for each batch that was acknowledged since a time."""
    for settled in _settled(leases).values():
        for before, lease in pairwise([None, *settled]):
            if lease is None or lease.settled_at is None or lease.settled_at <= since:
                continue
            began = lease.delivered_at or lease.leased_at
            if before is not None and before.settled_at is not None:
                began = max(began, before.settled_at)
            yield _between(began, lease.settled_at)


def _holding_seconds(leases: Sequence[_Lease], *, now: datetime) -> float | None:
    settled = _settled(leases)
    since: dict[int | None, datetime] = {}
    for lease in leases:
        if lease.state == "leased":
            since[lease.trainer] = min(since.get(lease.trainer, now), lease.leased_at)
    for trainer, before in settled.items():
        if trainer in since and before[-1].settled_at is not None:
            since[trainer] = max(since[trainer], before[-1].settled_at)
    return max((_between(began, now) for began in since.values()), default=None)


def _settled(leases: Sequence[_Lease]) -> dict[int | None, list[_Lease]]:
    """Return the acknowledged batches of each trainer, in the order of acknowledgement."""
    found = defaultdict[int | None, list[_Lease]](list)
    for lease in leases:
        if lease.state == "confirmed" and lease.settled_at is not None:
            found[lease.trainer].append(lease)
    for of_trainer in found.values():
        of_trainer.sort(key=lambda lease: lease.settled_at or lease.leased_at)
    return found


def _arrivals(run: Run, *, longest: timedelta, now: datetime) -> dict[str, Any]:
    """Return the arrivals per second, the time of the newest, and the share of stale ones."""
    parameters: dict[str, Any] = {
        "run": run.pk,
        "rows": ITEMS_AT_MOST,
        "since": now - min(longest, RATES_WINDOW),
        "stale_since": now - min(longest, STALE_WINDOW),
        "stale": [str(reason) for reason in STALE_REASONS],
    }
    with connection.cursor() as cursor:
        query = _OF_GROUPS if run.takes_groups else _OF_FRAGMENTS
        cursor.execute(query, parameters)
        items, units, first_at, last_at, stale, left = cursor.fetchone()
    window = min(longest, RATES_WINDOW) if items < ITEMS_AT_MOST else now - first_at
    return {
        "arriving": float(units) / max(0.001, window.total_seconds()) if units else None,
        "arrived_at": last_at,
        "stale_share": stale / left if left >= STALE_AMONG else None,
    }


def _between(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())


_PUSHED_GROUPS: Final = filled(
    SQL["pushed"],
    newest=" UNION ALL ".join(
        filled(
            f"({SQL['newest_pushed']})",
            bytes=bytes_,
            environment="env_id, '' AS environment",
            table="buffer_trajectorygroup",
        )
        for bytes_ in ("segment IS NOT NULL", "segment IS NULL")
    ),
)
_PUSHED_FRAGMENTS: Final = filled(
    SQL["pushed"],
    newest=SQL["newest_pushed"],
    bytes="segment IS NOT NULL",
    environment="NULL::int AS env_id, environment",
    table="buffer_fragmentchunk",
)


def arrivals_of(run: Run, *, now: datetime) -> list[EnvironmentPushRate]:
    """Return the push rates of the environments that pushed within the last minute.

    With more than :data:`ITEMS_AT_MOST` arrivals, rates cover the shorter time of the newest.
    """
    query = _PUSHED_GROUPS if run.takes_groups else _PUSHED_FRAGMENTS
    parameters: dict[str, Any] = {"run": run.pk, "rows": ITEMS_AT_MOST, "since": now - RATES_WINDOW}
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows = cursor.fetchall()
    rates: dict[tuple[int | None, str], float] = defaultdict(float)
    last: dict[tuple[int | None, str], datetime] = {}
    for _, env_id, environment, items, newest_at, in_all, oldest_at in rows:
        window = RATES_WINDOW if in_all < ITEMS_AT_MOST else now - oldest_at
        place = env_id, environment
        rates[place] += items / max(0.001, window.total_seconds())
        last[place] = max(newest_at, last.get(place, newest_at))
    return [
        EnvironmentPushRate(
            env_id=env_id,
            environment=environment,
            per_second=rate,
            newest_at=last[env_id, environment],
        )
        for (env_id, environment), rate in sorted(rates.items(), key=str)
    ]


GROUPS_AT_MOST: Final = 20_000
FLOWS_AT_MOST: Final = 2_000


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
    parts: Sequence["GroupStatistics"] = ()
    """Statistics of the groups that arrived in each interval, in order; empty intervals are left
    out."""
    environments: Sequence["EnvironmentStatistics"] = ()
    """Statistics of the groups of each environment, those with the most groups first."""


class EnvironmentStatistics(NamedTuple):
    """Statistics of the groups of the environments of one name."""

    environment: str
    groups: int
    mean_tokens: float | None
    """Mean length of a sequence."""
    score_mean: float | None
    """Mean of the groups' mean scores; None if none is finite."""


class GroupStatistics(NamedTuple):
    """Statistics of the groups that arrived in one interval."""

    mean_tokens: float | None
    """Mean length of a sequence."""
    longest_tokens: float | None
    """Length of the longest sequence."""
    score_mean: float | None
    """Mean of the groups' mean scores; None if none is finite."""
    score_percentiles: Sequence[float] | None
    """10th, 50th and 90th percentile of the groups' mean scores."""
    interval: int
    """Number of bounds at or before the arrivals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFlow:
    """Statistics of the batches after an ordinal, at their first lease."""

    last: int
    """Ordinal of the newest batch."""
    items: int = 0
    first_at: datetime | None = None
    staleness: Mapping[int, int] = field(default_factory=dict)
    """Items by versions behind."""
    leased: Sequence[datetime] = ()
    """Time of each first lease, in the order of the batches."""


def run_counts(run_ids: Sequence[int]) -> dict[int, RunCounts]:
    """Return the counts of runs; runs without items are omitted."""
    with sql.cursor() as cursor:
        rows = cursor.execute(SQL["counts_of_runs"], [list(run_ids)]).fetchall()
    return {run_id: RunCounts(*counts) for run_id, *counts in rows}


def group_flow(run_id: int, *, after: FlowCursor, bounds: Sequence[datetime] = ()) -> GroupFlow:
    """Return statistics of the newest :data:`GROUPS_AT_MOST` groups of a run after a cursor.

    Groups of open transactions are left to the next call.

    Args:
        run_id: The run.
        after: Last group of the previous call.
        bounds: Ascending times between the intervals of the statistics.
    """
    found = _rows(SQL["groups_after"], run_id, after, bounds=list(bounds))
    # Those of an environment have no interval.
    rows = [row for *row, _ in found if row[-1] is not None]
    return GroupFlow(
        last=FlowCursor(*found[0][:2]) if found else after,
        groups=sum(groups for _, _, groups, *_ in rows),
        without_variance=sum(equal for _, _, _, equal, *_ in rows),
        first_at=min((first_at for _, _, _, _, first_at, *_ in rows), default=None),
        parts=[GroupStatistics(*row[5:]) for row in rows],
        environments=[
            EnvironmentStatistics(name, groups, tokens, score)
            for _, _, groups, _, _, tokens, _, score, _, _, name in found
            if name is not None
        ],
    )


def cut_flow(run_id: int, *, after: FlowCursor) -> tuple[FlowCursor, float | None]:
    """Return the cursor of the last digested group, and the truncated share of sequences since.

    Truncation is read from digests, so groups without a digest are left to the next call. The
    share is None if no group has been digested since `after`.
    """
    [(written_in, item_id, share)] = _rows(SQL["truncated_after"], run_id, after)
    return (after if item_id is None else FlowCursor(written_in, item_id)), share


def _rows(query: str, run_id: int, after: FlowCursor, **more: Any) -> list[tuple[Any, ...]]:
    parameters = {
        "run": run_id,
        "written_in": str(after.written_in),
        "item": after.item_id,
        "limit": GROUPS_AT_MOST,
        **more,
    }
    with sql.cursor() as cursor:
        rows: list[tuple[Any, ...]] = cursor.execute(query, parameters).fetchall()
    return rows


def batch_flow(run_id: int, *, after: int) -> BatchFlow:
    """Return statistics of the newest :data:`FLOWS_AT_MOST` batches after ordinal `after`."""
    later = Batch.objects.filter(run_id=run_id, ordinal__gt=after).order_by("-ordinal")
    rows = list(later.values_list("ordinal", "items", "leased_at", "staleness")[:FLOWS_AT_MOST])
    if not rows:
        return BatchFlow(last=after)
    return BatchFlow(
        last=rows[0][0],
        items=sum(items for _, items, _, _ in rows),
        first_at=min(at for _, _, at, _ in rows),
        staleness=by_versions(staleness for *_, staleness in rows),
        leased=[at for _, _, at, _ in reversed(rows)],
    )


AGED_AT_MOST: Final = 20
"""Number of newest batches whose item ages are read."""
_COLUMNS: Final = (
    *("trainer", "state", "epoch", "kind", "sampler", "staleness"),
    *("leased_at", "delivered_at", "settled_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerPace:
    """Trainer statistics of the window, or since the first batch in it.

    The window is a minute, or two cycles of a slower trainer.
    """

    seconds: float
    """Duration that the statistics cover."""
    batches: int
    """Batches leased or acknowledged in that time."""
    waiting_share: float
    """Fraction of the time in which a trainer held no batch; mean over trainers."""
    age_seconds: float | None
    """Mean time from the arrival of an item to the lease of its batch."""
    age_versions: float | None
    """Mean number of policy versions by which items were behind the run when leased."""


def trainer_pace(
    run_id: int, *, since: datetime | None = None, now: datetime
) -> TrainerPace | None:
    """Return the trainer statistics of a run; None without batches within the window.

    A trainer holds a batch from delivery until acknowledgement. If the trainer does not
    acknowledge it, its next request does.

    Args:
        run_id: The run.
        since: Earliest time of the window, for instance the last change of the run's status.
        now: Present time.
    """
    of_run = Batch.objects.filter(run_id=run_id).only(*_COLUMNS)
    newest = list(of_run.order_by("-ordinal")[:BATCHES_AT_MOST])
    starts = ((batch.trainer_id, batch.leased_at.timestamp()) for batch in newest)
    begin = now - timedelta(seconds=window_seconds(starts, now=now.timestamp()))
    begin = begin if since is None else max(begin, since)
    found = [batch for batch in newest if (batch.settled_at or now) > begin]
    held = _held(found, now=now)
    if not held:
        return None
    first = max(begin.timestamp(), min(began for spans in held.values() for began, _ in spans))
    shares = [
        share
        for spans in held.values()
        if (share := waiting_share(spans, since=first, until=now.timestamp())) is not None
    ]
    if not shares:
        return None
    return TrainerPace(
        seconds=now.timestamp() - first,
        batches=len(found),
        waiting_share=sum(shares) / len(shares),
        age_seconds=_mean_age(found[:AGED_AT_MOST]),
        age_versions=mean_versions(batch.staleness for batch in found),
    )


def trainer_wait_share(run_id: int, *, since: datetime, until: datetime) -> float | None:
    """Return the fraction of a period in which a trainer held no batch; mean over trainers.

    Includes trainers that held a batch in the period, and trainers that only sent requests.

    Returns:
        The fraction, or None without trainers.
    """
    of_run = Batch.objects.filter(run_id=run_id, leased_at__lt=until).only(*_COLUMNS)
    newest = of_run.order_by("-ordinal")[:BATCHES_AT_MOST]
    held = _held([one for one in newest if (one.settled_at or until) > since], now=until)
    there = Trainer.objects.filter(run_id=run_id, run__trainer_started_at__lt=until)
    joined = {
        pk: registered_at
        for pk, registered_at, seen_at in there.values_list("pk", "registered_at", "last_seen_at")
        if pk in held or since < seen_at
    }
    shares = [
        waiting_share(
            held.get(pk, []),
            since=max(since, registered_at).timestamp(),
            until=until.timestamp(),
        )
        for pk, registered_at in joined.items()
    ]
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None


def _held(batches: list[Batch], *, now: datetime) -> dict[int, list[tuple[float, float]]]:
    """Return the periods in which each trainer held batches of the newest epoch."""
    held: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for batch in batches:
        is_over = batch.settled_at is None and batch.state != BatchState.LEASED
        if batch.trainer_id is None or is_over or batch.epoch != batches[0].epoch:
            continue
        # A batch that is still being delivered counts as waiting.
        began = batch.delivered_at or (batch.leased_at if batch.settled_at else now)
        held[batch.trainer_id].append((began.timestamp(), (batch.settled_at or now).timestamp()))
    return held


def _mean_age(batches: list[Batch]) -> float | None:
    if not batches:
        return None
    kind, is_sampled = batches[0].kind, bool(batches[0].sampler)
    same = [one.pk for one in batches if (one.kind, bool(one.sampler)) == (kind, is_sampled)]
    received = "item__received_at" if is_sampled else "received_at"
    rows: Any = FragmentChunk if kind == ItemKind.FRAGMENTS else TrajectoryGroup
    found = (BatchUse if is_sampled else rows).objects.filter(batch__in=same)
    mean: timedelta | None = found.aggregate(mean=Avg(F("batch__leased_at") - F(received)))["mean"]
    return None if mean is None else max(0.0, mean.total_seconds())
