"""Facet counts and histograms of a run's newest groups."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from buffer.inspect.queries.group_id_ranges import FLAGS, JOINED, WORKER, list_query
from buffer.inspect.queries.group_lists import bounded_cursor
from buffer.inspect.rules.group_filter import GroupFilter, Sort
from buffer.inspect.schemas import ScoreBins

COUNTED: Final = 10_000
"""Number of newest groups that facets count."""
BINS: Final = 24
MOST_VALUES: Final = 40
# Facets and the SQL expressions of their values.
_VALUES: Final = {
    "env": "COALESCE(g.env_id, -1)::text",
    "lesson": "d.lesson",
    "worker": WORKER,
    "state": "g.state",
    "reason": "NULLIF(g.drop_reason, '')",
}
_NUMBERS: Final = {
    "score": "g.score_mean",
    "length": "g.longest_tokens::float8",
    "version": "g.policy_step::float8",
    "step": "b.ordinal::float8",
}


@dataclass(frozen=True, slots=True)
class Facets:
    """Facet counts of a run's newest groups.

    Each facet counts the groups that match all conditions except those on the facet itself.
    """

    examined: int
    """Number of groups examined; all groups if less than :data:`COUNTED`."""
    matching: int
    """Number of examined groups that match the filter."""
    oldest_at: datetime | None
    """Arrival time of the oldest examined group."""
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    histograms: dict[str, ScoreBins] = field(default_factory=dict)


def facets(run_id: int, group_filter: GroupFilter) -> Facets:
    """Return the facets of a list, from the newest :data:`COUNTED` groups in any sort order.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    group_filter = replace(group_filter, sort=Sort.NEWEST)
    found = list_query(run_id, group_filter, rows=COUNTED, after=None)
    with bounded_cursor() as cursor:
        cursor.execute(_query(found.source, found.tests), found.params)
        return _gathered(cursor.fetchall())


def _query(source: str, tests: dict[str, str]) -> str:
    columns = [f"{value} AS {name}" for name, value in (_VALUES | _NUMBERS).items()]
    columns += [f"({test}) AS meets_{name}" for name, test in tests.items()]
    columns += [f"({test}) AS is_{name}" for name, test in FLAGS.items()]
    parts = [
        f"""SELECT 'all', '', count(*), count(*) FILTER (WHERE {_meets(tests)})::float8,
            NULL::float8, min(received_at) FROM seen"""  # noqa: S608 made of constants
    ]
    parts += [
        f"""SELECT '{name}', {name}, count(*), NULL, NULL, NULL FROM seen
            WHERE {_meets(tests, but=name)} GROUP BY {name}"""  # noqa: S608
        for name in _VALUES
    ]
    flags = ", ".join(f"('{name}', is_{name})" for name in FLAGS)
    parts.append(
        f"""SELECT 'flag', name, count(*), NULL, NULL, NULL
            FROM seen, LATERAL (VALUES {flags}) AS flags(name, is_so)
            WHERE is_so AND {_meets(tests, but="flag")} GROUP BY name"""  # noqa: S608
    )
    parts += [_histogram(name, tests) for name in _NUMBERS]
    return f"""
        WITH seen AS MATERIALIZED (
            SELECT g.received_at, {", ".join(columns)} FROM ({source}) g {JOINED}
        ) {" UNION ALL ".join(parts)}"""  # noqa: S608


def _meets(tests: dict[str, str], *, but: str = "") -> str:
    return " AND ".join(f"meets_{name}" for name in tests if name != but) or "TRUE"


def _histogram(name: str, tests: dict[str, str]) -> str:
    """Return SQL for rows of (bin, count, least, most); the scale ignores the filter."""
    return f"""(
        WITH scale AS (
            SELECT min({name}) AS least, max({name}) AS most FROM seen
            WHERE abs({name}) < 'Infinity'
        )
        SELECT '{name}', CASE WHEN least < most
            THEN least(width_bucket({name}, least, most, {BINS}), {BINS}) ELSE 1 END::text,
            count(*), least, most, NULL::timestamptz
        FROM seen, scale WHERE abs({name}) < 'Infinity' AND {_meets(tests, but=name)}
        GROUP BY 2, least, most)"""  # noqa: S608


def _gathered(rows: list[tuple[str, str | None, int, float, float, datetime]]) -> Facets:
    values: dict[str, dict[str, int]] = {name: {} for name in (*_VALUES, "flag")}
    bins: dict[str, dict[int, int]] = defaultdict(dict)
    scales: dict[str, tuple[float, float]] = {}
    examined, matching, oldest_at = 0, 0, None
    for facet, value, count, first, second, at in rows:
        if facet == "all":
            examined, matching, oldest_at = count, int(first), at
        elif facet in _NUMBERS and value is not None:
            bins[facet][int(value)] = count
            scales[facet] = (first, second)
        elif value:
            values[facet][value] = count
    return Facets(
        examined,
        matching,
        oldest_at,
        values={name: _most_frequent(counts) for name, counts in values.items()},
        histograms={
            name: ScoreBins(
                least=least,
                most=most,
                counts=[bins[name].get(place, 0) for place in range(1, BINS + 1)],
            )
            for name, (least, most) in scales.items()
        },
    )


def _most_frequent(counts: dict[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return dict(ordered[:MOST_VALUES])
