"""Arrival and lease rates of a run, from few rows."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from django.db import connection

from buffer.batches.rules.trainer_pace import window_seconds
from buffer.batches.schemas import EnvironmentPushRate
from buffer.items.models import Batch
from buffer.items.rules.states import STALE_REASONS
from runs.lifecycle.models import Run

RATES_WINDOW: Final = timedelta(seconds=60)
ITEMS_AT_MOST: Final = 2000
"""Maximum number of items read, newest first; with more arrivals, rates cover a shorter time."""
BATCHES_AT_MOST: Final = 200
STALE_WINDOW: Final = timedelta(minutes=5)
"""Longer than the others: an item is dropped only when its batch would have been formed."""
STALE_AMONG: Final = 20
"""Minimum number of items that left the queue, for a share of stale ones."""
_ARRIVED: Final = """
    SELECT COUNT(*) FILTER (WHERE received_at > %(since)s),
        COALESCE(SUM(units) FILTER (WHERE received_at > %(since)s AND is_stored), 0)::float8,
        MIN(received_at) FILTER (WHERE received_at > %(since)s),
        MAX(received_at) FILTER (WHERE is_stored),
        COUNT(*) FILTER (WHERE received_at > %(stale_since)s AND drop_reason = ANY(%(stale)s)),
        COUNT(*) FILTER (WHERE received_at > %(stale_since)s
            AND (drop_reason = ANY(%(stale)s) OR state IN ('leased', 'served')))
    FROM (
        SELECT received_at, {units} AS units, state, drop_reason, segment IS NOT NULL AS is_stored
        FROM {table} WHERE run_id = %(run)s ORDER BY id DESC LIMIT %(rows)s
    ) newest"""
_OF_GROUPS: Final = _ARRIVED.format(units="sequences", table="buffer_trajectorygroup")
_OF_FRAGMENTS: Final = _ARRIVED.format(units="1", table="buffer_fragmentchunk")


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


class _Lease(NamedTuple):
    leased_at: datetime
    delivered_at: datetime | None
    settled_at: datetime | None
    state: str
    sequences: int
    trainer: int | None


def rates_of(run: Run, *, since: datetime | None = None, now: datetime) -> Rates:
    """Return the recent data rates of a run.

    Args:
        run: The run.
        since: Earliest time of a measurement, for instance the last change of the run's status.
        now: Present time.
    """
    longest = timedelta.max if since is None else max(now - since, timedelta(seconds=1))
    newest = Batch.objects.filter(run=run).order_by("-ordinal")
    columns = ("leased_at", "delivered_at", "settled_at", "state", "sequences", "trainer")
    leases = [_Lease(*row) for row in newest.values_list(*columns)[:BATCHES_AT_MOST]]
    starts = ((lease.trainer, lease.leased_at.timestamp()) for lease in leases)
    window = min(longest, timedelta(seconds=window_seconds(starts, now=now.timestamp())))
    found = [lease for lease in leases if lease.leased_at > now - window]
    seconds = _seconds(found, window, now=now)
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


def _seconds(found: Sequence[_Lease], window: timedelta, *, now: datetime) -> float:
    """Return the time that the leases cover: the window, or less at the row limit."""
    if len(found) >= BATCHES_AT_MOST:
        window = now - min(lease.leased_at for lease in found)
    return max(0.001, window.total_seconds())


def _between(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())


# Rows with bytes and rows without (dropped on arrival) each have an index, newest first.
_NEWEST: Final = """
    SELECT {bytes} AS kept, {environment}, received_at FROM {table}
    WHERE run_id = %(run)s AND {bytes} ORDER BY id DESC LIMIT %(rows)s"""
_PUSHED: Final = """
    SELECT kept, env_id, environment, COUNT(*), MAX(received_at),
        SUM(COUNT(*)) OVER (PARTITION BY kept), MIN(MIN(received_at)) OVER (PARTITION BY kept)
    FROM ({newest}) n WHERE received_at > %(since)s GROUP BY kept, env_id, environment"""
_GROUPS: Final = " UNION ALL ".join(
    f"({_NEWEST})".format(
        bytes=bytes_, environment="env_id, '' AS environment", table="buffer_trajectorygroup"
    )
    for bytes_ in ("segment IS NOT NULL", "segment IS NULL")
)
_FRAGMENTS: Final = _NEWEST.format(
    bytes="segment IS NOT NULL",
    environment="NULL::int AS env_id, environment",
    table="buffer_fragmentchunk",
)


def arrivals_of(run: Run, *, now: datetime) -> list[EnvironmentPushRate]:
    """Return the push rates of the environments that pushed within the last minute.

    With more than :data:`ITEMS_AT_MOST` arrivals, rates cover the shorter time of the newest.
    """
    newest = _GROUPS if run.takes_groups else _FRAGMENTS
    parameters: dict[str, Any] = {"run": run.pk, "rows": ITEMS_AT_MOST, "since": now - RATES_WINDOW}
    with connection.cursor() as cursor:
        cursor.execute(_PUSHED.format(newest=newest), parameters)
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
