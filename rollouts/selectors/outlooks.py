"""Say of many runs at once how their fleets do, for lists of runs."""

from collections.abc import Sequence
from typing import Any, Final

from django.db import connection

RECENT_RETURNS: Final = 20
POINTS: Final = 40
# The verdict of the worker that did most stands for the fleet's.
_FLEETS: Final = """
    SELECT f.run_id, f.observed_at, f.recent_returns[cardinality(f.recent_returns) - 19 :],
        COUNT(w.id), (array_agg(w.verdict ORDER BY w.env_steps DESC NULLS LAST))[1]
    FROM rollouts_fleet f LEFT JOIN rollouts_fleetworker w ON w.fleet_id = f.id
    WHERE f.run_id = ANY(%s) GROUP BY f.id"""
_RETURNS: Final = """
    SELECT r.id, ARRAY(
        SELECT e.recent_return_mean FROM rollouts_episodewindow e
        WHERE e.run_id = r.id AND e.recent_return_mean IS NOT NULL
        ORDER BY e.id DESC LIMIT %s
    ) FROM unnest(%s::bigint[]) AS r(id)"""


def fleet_outlooks(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return workers, the last report, returns and a verdict of each run that has a fleet."""
    found: dict[int, dict[str, Any]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FLEETS, [list(run_ids)])
        for run_id, observed_at, returns, workers, verdict in cursor.fetchall():
            last = (returns or [])[-RECENT_RETURNS:]
            found[run_id] = {
                "workers": workers,
                "observed_at": observed_at,
                "return_mean": sum(last) / len(last) if last else None,
                "verdict": verdict or "",
            }
        cursor.execute(_RETURNS, [POINTS, list(found)])
        for run_id, values in cursor.fetchall():
            found[run_id]["returns"] = values[::-1]
    return found
