"""Arrival and lease rates of a run within the last minute, from few rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from buffer.items.models.items import Batch
from runs.lifecycle.models.runs import Run

RATES_WINDOW: Final = timedelta(seconds=60)
ITEMS_AT_MOST: Final = 2000
"""Maximum number of items read, newest first; with more arrivals, rates cover a shorter time."""
BATCHES_AT_MOST: Final = 200
_ARRIVED: Final = """
    SELECT COUNT(*), COALESCE(SUM(units), 0)::float8, MIN(received_at) FROM (
        SELECT received_at, {units} AS units FROM {table}
        WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id DESC LIMIT %(rows)s
    ) newest WHERE received_at > %(since)s"""
_OF_GROUPS: Final = _ARRIVED.format(units="sequences", table="buffer_trajectorygroup")
_OF_FRAGMENTS: Final = _ARRIVED.format(units="1", table="buffer_fragmentchunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Recent data rates of a run; amounts count sequences, or fragments of a fleet run.

    None means no activity.
    """

    arriving: float | None
    """Arrivals per second."""
    handed_out: float | None
    """Amount leased per second."""
    batches: float | None
    """Batches leased per second."""
    delivery_seconds: Sequence[float] = ()
    """Time of each batch from its lease to its last byte."""
    train_seconds: Sequence[float] = ()
    """Time of each acknowledged batch from its last byte to its acknowledgement."""
    holding_seconds: float | None = None
    """Age of the oldest lease among the newest batches."""


def rates_of(run: Run, *, now: datetime) -> Rates:
    """Return the data rates of a run within the last minute."""
    since = now - RATES_WINDOW
    newest = Batch.objects.filter(run=run).order_by("-ordinal")
    columns = newest.values_list("leased_at", "delivered_at", "settled_at", "state", "sequences")
    rows = list(columns[:BATCHES_AT_MOST])
    found = [row for row in rows if row[0] > since]
    out = [(now - leased).total_seconds() for leased, _, _, state, _ in rows if state == "leased"]
    seconds = _seconds(min((row[0] for row in found), default=now), len(found), now=now)
    sent = [_between(leased, at) for leased, at, *_ in found if at is not None]
    trained = [
        _between(at or leased, settled)
        for leased, at, settled, state, _ in found
        if state == "confirmed" and settled is not None
    ]
    return Rates(
        arriving=_arriving(run, since=since, now=now),
        handed_out=sum(row[4] for row in found) / seconds if found else None,
        batches=len(found) / seconds if found else None,
        delivery_seconds=sent,
        train_seconds=trained,
        holding_seconds=max(out, default=None),
    )


def _arriving(run: Run, *, since: datetime, now: datetime) -> float | None:
    with connection.cursor() as cursor:
        query = _OF_GROUPS if run.takes_groups else _OF_FRAGMENTS
        cursor.execute(query, {"run": run.pk, "rows": ITEMS_AT_MOST, "since": since})
        items, units, first_at = cursor.fetchone()
    if not items:
        return None
    window = RATES_WINDOW if items < ITEMS_AT_MOST else now - first_at
    return float(units) / max(0.001, window.total_seconds())


def _seconds(first_at: datetime, batches: int, *, now: datetime) -> float:
    """Return the time that the batches cover: the window, or less at the row limit."""
    window = RATES_WINDOW if batches < BATCHES_AT_MOST else now - first_at
    return max(0.001, window.total_seconds())


def _between(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
