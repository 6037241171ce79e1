"""Push rates of a run's environments within the last minute, from few rows."""

from collections import defaultdict
from datetime import datetime
from typing import Any, Final

from django.db import connection

from buffer.batches.queries.rates import ITEMS_AT_MOST, RATES_WINDOW
from buffer.batches.schemas.queues import EnvironmentPushRate
from runs.lifecycle.models.runs import Run

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
