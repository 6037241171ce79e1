"""Say of many runs at once how their fleets do, for lists of runs."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from rollouts.core.proof import Heard

RECENT_RETURNS: Final = 20
POINTS: Final = 40
_HEARD: Final = ("observed", "has_manager", "reported_at", "heard_at", "launched_at")
_FLEETS: Final = """
    SELECT f.run_id, f.recent_returns[cardinality(f.recent_returns) - 19 :],
        (SELECT COUNT(*) FROM rollouts_fleetworker w WHERE w.fleet_id = f.id), f.reason,
        f.observed, f.incarnation <> '', f.observed_at, f.heard_at, f.launched_at
    FROM rollouts_fleet f WHERE f.run_id = ANY(%s)"""
_RETURNS: Final = """
    SELECT r.id, ARRAY(
        SELECT e.recent_return_mean FROM rollouts_episodewindow e
        WHERE e.run_id = r.id AND e.recent_return_mean IS NOT NULL
        ORDER BY e.id DESC LIMIT %s
    ) FROM unnest(%s::bigint[]) AS r(id)"""

# Names under which the deck itself measures; docs/explanation/metrics.md lists them.
_RATE: Final = "rolldeck/accepted_per_second"
_STALENESS: Final = "rolldeck/staleness/p50"
FRESH: Final = timedelta(minutes=1)
"""How long a rate is believed when no further one comes."""
_FIGURES: Final = """
    SELECT s.run_id, s.name, COALESCE(m.value, s.packed_value), COALESCE(m.at, s.packed_at)
    FROM rollouts_metricseries s LEFT JOIN LATERAL (
        SELECT value, at FROM rollouts_metricsample
        WHERE series_id = s.id ORDER BY id DESC LIMIT 1
    ) m ON true
    WHERE s.run_id = ANY(%s) AND s.name = ANY(%s)"""


def figure_outlooks(run_ids: Sequence[int], *, now: datetime) -> dict[int, dict[str, Any]]:
    """Return how fast data comes into each run, and how far what it serves is behind.

    A run at rest is measured no more, and its last rate is 0; one whose last rate is another, and
    old, is not measured as it should be, so nobody knows.
    """
    found: dict[int, dict[str, Any]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FIGURES, [list(run_ids), [_RATE, _STALENESS]])
        for run_id, name, value, at in cursor.fetchall():
            told = found.setdefault(run_id, {})
            if name == _STALENESS:
                told["staleness_p50"] = value
            elif value == 0 or (at is not None and at > now - FRESH):
                told["accepted_per_second"] = value
    return found


def fleet_outlooks(run_ids: Sequence[int], *, now: datetime) -> dict[int, dict[str, Any]]:
    """Return workers, the last proof of life and returns of each run that has a fleet."""
    found: dict[int, dict[str, Any]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FLEETS, [list(run_ids)])
        for run_id, returns, workers, reason, *told in cursor.fetchall():
            heard = Heard(**dict(zip(_HEARD, told, strict=True)))
            last = (returns or [])[-RECENT_RETURNS:]
            found[run_id] = {
                "workers": workers,
                "observed_at": heard.proven_at,
                "fleet_reason": heard.doubt(now=now) or reason,
                "return_mean": sum(last) / len(last) if last else None,
            }
        cursor.execute(_RETURNS, [POINTS, list(found)])
        for run_id, values in cursor.fetchall():
            found[run_id]["returns"] = values[::-1]
    return found
