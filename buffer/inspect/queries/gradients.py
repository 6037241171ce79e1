"""Newest groups of a run of which none has a gradient, so that training changes nothing."""

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db import connection

RECENT: Final = timedelta(minutes=10)
NEWEST: Final = 64
"""Newest groups of a run that are examined."""
FEWEST: Final = 20
"""Minimum number of groups without a gradient."""
_QUERY: Final = """
    SELECT count(*), count(*) FILTER (WHERE score_min = score_max),
        min(score_mean), max(score_mean)
    FROM (
        SELECT g.score_min, g.score_max, g.score_mean, d.has_gradient FROM (
            SELECT id, score_min, score_max, score_mean, received_at FROM buffer_trajectorygroup
            WHERE run_id = %(run)s AND segment IS NOT NULL ORDER BY id DESC LIMIT %(newest)s
        ) g JOIN buffer_groupdigest d ON d.group_id = g.id
        WHERE g.received_at > %(since)s AND d.has_gradient IS NOT NULL
    ) seen HAVING count(*) >= %(fewest)s AND NOT bool_or(has_gradient)"""


class NoGradients(NamedTuple):
    """Newest groups of a run, all without a gradient."""

    groups: int
    equal: int
    """Of these, the groups whose scores are all equal."""
    lowest: float
    """Lowest mean score."""
    highest: float
    """Highest mean score."""


def groups_without_gradient(run_id: int, *, now: datetime) -> NoGradients | None:
    """Return the newest groups of a run if none of at least :data:`FEWEST` has a gradient."""
    params: dict[str, Any] = {
        "run": run_id,
        "since": now - RECENT,
        "newest": NEWEST,
        "fewest": FEWEST,
    }
    with connection.cursor() as cursor:
        cursor.execute(_QUERY, params)
        row = cursor.fetchone()
    return None if row is None else NoGradients(*row)
