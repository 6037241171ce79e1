"""Alert conditions of buffers: stalled runs, full queues, stale drops, leases and disk space."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import Count

from buffer.items.models.items import Batch
from buffer.items.queries.arrival_drops import arrival_drops
from buffer.items.rules.states import BatchState, DropReason, ItemKind
from rollouts.alerts.rules.stalls import Flow, Stall, stall_of
from runs.alerts.rules.alerts import SEEN_AT_MOST, AlertKind, Condition, Severity
from runs.lifecycle.rules.lifecycle import ACTIVE, RunStatus
from web.disk_space import free_disk_bytes

RUNS_AT_MOST: Final = 10_000
"""Active runs that are evaluated, newest first; this many take 0.1 s."""
# Contents and last activity of runs that accept data. Counts are sums of few rows; times are read
# from the end of an index.
_FLOWS: Final = """
    SELECT r.id, r.name, r.kind, r.status, r.status_changed_at, r.batch_size,
        COALESCE(t.queued, 0), COALESCE(t.leased, 0), COALESCE(t.items, 0), COALESCE(t.bytes, 0),
        GREATEST(
            (SELECT received_at FROM buffer_trajectorygroup g
                WHERE g.run_id = r.id AND g.segment IS NOT NULL ORDER BY g.id DESC LIMIT 1),
            (SELECT received_at FROM buffer_fragmentchunk f
                WHERE f.run_id = r.id AND f.segment IS NOT NULL ORDER BY f.id DESC LIMIT 1)),
        (SELECT leased_at FROM buffer_batch b
            WHERE b.run_id = r.id ORDER BY b.ordinal DESC LIMIT 1)
    FROM runs_run r LEFT JOIN LATERAL (
        SELECT SUM(sequences) FILTER (WHERE state = 'queued') AS queued,
            SUM(sequences) FILTER (WHERE state = 'leased') AS leased,
            SUM(items) FILTER (WHERE state IN ('queued', 'waiting', 'leased', 'quarantined'))
                AS items,
            SUM(size_bytes) FILTER (WHERE state IN ('queued', 'waiting', 'leased', 'quarantined'))
                AS bytes
        FROM buffer_tally WHERE run_id = r.id) t ON true
    WHERE r.archived_at IS NULL AND r.status = ANY(%s) ORDER BY r.id DESC LIMIT %s"""
# Counts of the current epoch only; drops of earlier epochs do not alert.
_AGED: Final = """
    SELECT r.id, r.name FROM runs_run r, LATERAL (
        SELECT SUM(items) FILTER (WHERE state = 'accepted') AS accepted,
            SUM(items) FILTER (WHERE state = 'dropped' AND reason = ANY(%s)) AS aged
        FROM buffer_tally WHERE run_id = r.id AND epoch = r.epoch) t
    WHERE r.archived_at IS NULL AND r.status = ANY(%s)
        AND t.accepted >= %s AND t.aged > %s * t.accepted ORDER BY r.id DESC LIMIT %s"""
STALE_SHARE: Final = 0.2
"""Share of dropped items that raises an alert; smaller shares are normal."""
STALE_AMONG: Final = 100
"""Minimum number of accepted items for which the share is evaluated."""
_WORDS: Final = {
    Stall.PRODUCERS: (
        AlertKind.RUN_STALLED,
        "{name} has received no items for more than {minutes}",
    ),
    Stall.TRAINERS: (
        AlertKind.TRAINING_STALLED,
        "{name} has a queued batch, but no trainer has leased one for more than {minutes}",
    ),
}


class _Row(NamedTuple):
    run_id: int
    name: str
    kind: str
    status: str
    since: datetime
    batch_size: int | None
    queued: int
    leased: int
    open_items: int
    open_bytes: int
    arrived_at: datetime | None
    taken_at: datetime | None


def _active_runs() -> Iterator[_Row]:
    with connection.cursor() as cursor:
        cursor.execute(_FLOWS, [sorted(ACTIVE), RUNS_AT_MOST])
        yield from (_Row(*row) for row in cursor.fetchall())


def flows(now: datetime) -> list[Condition]:
    """Return the stalled and the full runs, from one query."""
    rows = list(_active_runs())
    return [*islice(_stalled(rows, now), SEEN_AT_MOST), *islice(_full(rows), SEEN_AT_MOST)]


def _stalled(rows: Iterable[_Row], now: datetime) -> Iterator[Condition]:
    timeout = timedelta(seconds=settings.ROLLDECK_STALLED_SECONDS)
    if not timeout:
        return
    minutes = f"{max(1, round(timeout.total_seconds() / 60))} min"
    for row in rows:
        if row.status != RunStatus.RUNNING:
            continue
        flow = Flow(
            running_since=row.since,
            queued=int(row.queued),
            leased=int(row.leased),
            batch_size=row.batch_size,
            arrived_at=row.arrived_at,
            taken_at=row.taken_at,
        )
        stall = stall_of(flow, timeout=timeout, now=now)
        if stall is not None:
            kind, words = _WORDS[stall]
            message = words.format(name=row.name, minutes=minutes)
            yield Condition(kind=kind, run_id=row.run_id, message=message)


def stale_drops(now: datetime) -> list[Condition]:
    """Return the active runs that drop too large a share of their items."""
    on_arrival = arrival_drops(now=now)
    named = {one.run_id for one in on_arrival}
    return [
        *(
            Condition(
                kind=AlertKind.STALE_DROPS,
                run_id=one.run_id,
                message=f"{one.run}: {one.words}. {one.remedy}",
                details={"reason": one.reason, "dropped": one.dropped, "groups": one.groups},
            )
            for one in on_arrival
        ),
        *(one for one in _aged() if one.run_id not in named),
    ]


def _aged() -> list[Condition]:
    aged = [str(DropReason.STALE_VERSION), str(DropReason.STALE_AGE)]
    limits = [STALE_AMONG, STALE_SHARE, SEEN_AT_MOST]
    with connection.cursor() as cursor:
        cursor.execute(_AGED, [aged, sorted(ACTIVE), *limits])
        rows = cursor.fetchall()
    return [
        Condition(
            kind=AlertKind.STALE_DROPS,
            run_id=run_id,
            message=f"{name} has dropped more than {100 * STALE_SHARE:g} % of its items as stale",
        )
        for run_id, name in rows
    ]


def _full(rows: Iterable[_Row]) -> Iterator[Condition]:
    """Return the runs at their limits, which refuse pushes."""
    most = {
        ItemKind.GROUPS: settings.ROLLDECK_MAX_QUEUED_GROUPS,
        ItemKind.FRAGMENTS: settings.ROLLDECK_MAX_QUEUED_FRAGMENTS,
    }
    for row in rows:
        kind = ItemKind.FRAGMENTS if row.kind == "fleet" else ItemKind.GROUPS
        is_full = row.open_items >= most[kind]
        if is_full or row.open_bytes >= settings.ROLLDECK_MAX_RUN_BYTES:
            held = f"{most[kind]:,} {kind}" if is_full else f"{settings.ROLLDECK_MAX_RUN_BYTES:,} B"
            message = f"{row.name} is at its limit of {held}: pushes are refused"
            yield Condition(kind=AlertKind.QUEUE_FULL, run_id=row.run_id, message=message)


def quarantined_batches(_now: datetime) -> list[Condition]:
    """Return the quarantined batches of runs that are not archived."""
    quarantined = Batch.objects.filter(state=BatchState.QUARANTINED, run__archived_at=None)
    waiting = quarantined.order_by("-leased_at")
    rows = waiting.values_list("pk", "run_id", "run__name", "ordinal", "items", "lease_expiries")
    return [
        Condition(
            kind=AlertKind.BATCH_QUARANTINED,
            run_id=run_id,
            subject=str(batch),
            message=f"batch {ordinal} of {name} is quarantined: "
            f"its lease expired {lease_expiries} times",
            details={"batch": str(batch), "ordinal": ordinal, "items": items},
        )
        for batch, run_id, name, ordinal, items, lease_expiries in rows[:SEEN_AT_MOST]
    ]


def expired_leases(_now: datetime) -> list[Condition]:
    """Return the active runs with returned batches, which wait for the next trainer."""
    returned = Batch.objects.filter(state=BatchState.RETURNED, run__status__in=ACTIVE)
    rows: Any = returned.values_list("run_id", "run__name").annotate(Count("pk")).order_by("run_id")
    return [
        Condition(
            kind=AlertKind.LEASE_LAPSED,
            run_id=run_id,
            message=f"{_batches(number)} of {name} returned to the queue: the lease expired",
            details={"batches": number},
        )
        for run_id, name, number in rows[:SEEN_AT_MOST]
    ]


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number} batches"


def low_disk(_now: datetime) -> list[Condition]:
    """Return a condition if free disk space is below twice the minimum."""
    least, free = settings.ROLLDECK_MIN_FREE_DISK_BYTES, free_disk_bytes()
    if free >= 2 * least:
        return []
    gigabytes = f"{least / 1e9:.1f} GB"
    if free < least:
        message = f"less than {gigabytes} of disk free: pushes, weights and archives are refused"
        return [Condition(kind=AlertKind.DISK_LOW, message=message)]
    message = (
        f"less than {2 * least / 1e9:.1f} GB of disk free; "
        f"pushes, weights and archives are refused below {gigabytes}"
    )
    return [Condition(kind=AlertKind.DISK_LOW, severity=Severity.WARNING, message=message)]
