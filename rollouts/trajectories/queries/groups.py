"""Search for trajectory groups in several runs, from digests and metadata."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from buffer.inspect.queries.group_lists import bounded_cursor
from rollouts.trajectories.queries.examined import ROWS_EXAMINED, horizon, rows_of_each
from rollouts.trajectories.rules import Position, TrajectoryFilter, TrajectorySort

_SORTED: Final = {
    TrajectorySort.NEWEST: ("group_id", True),
    TrajectorySort.HIGHEST: ("score_mean, group_id", True),
    TrajectorySort.LOWEST: ("score_mean, group_id", False),
}
_EACH: Final = """
    SELECT d.* FROM unnest(%(runs)s::bigint[]) AS r(run) CROSS JOIN LATERAL ({rows}) d"""
# The newest groups of a run are read from the index of the list of its groups.
_NEWEST: Final = """
    SELECT g.run_id, g.id AS group_id, g.score_mean FROM buffer_trajectorygroup g
    WHERE g.run_id = r.run AND g.segment IS NOT NULL {beyond}
    ORDER BY g.id DESC LIMIT %(each)s"""
_BY_SCORE: Final = """
    SELECT d.run_id, d.group_id, d.score_mean FROM buffer_groupdigest d
    WHERE d.run_id = r.run {beyond}
    ORDER BY d.score_mean {direction}, d.group_id {direction} LIMIT %(each)s"""
# One index of words serves all runs, so a search for words reads no rows run by run.
_WORDED: Final = """
    SELECT d.run_id, d.group_id, d.score_mean FROM buffer_groupdigest d
    WHERE d.words @@ websearch_to_tsquery('simple', %(text)s)
        AND d.run_id = ANY(%(runs)s::bigint[]) {beyond}"""
_IN_ENVIRONMENT: Final = """(d.lesson = %(environment)s OR (g.run_id, g.env_id) IN (
    SELECT run_id, env_id FROM runs_environment
    WHERE %(environment)s IN (wandb_name, desired_name)))"""
_ROWS: Final = """
    SELECT x.run_id, g.id, g.score_mean, g.score_min, g.score_max, g.sequences, g.longest_tokens,
        g.policy_step, g.received_at, COALESCE(d.excerpt, ''), COALESCE(d.lesson, ''),
        COALESCE(NULLIF(d.worker, ''), g.producer), COALESCE(e.wandb_name, '')
    FROM ({source}) x JOIN buffer_trajectorygroup g ON g.id = x.group_id
    LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
    LEFT JOIN runs_environment e ON e.run_id = g.run_id AND e.env_id = g.env_id
    {where} ORDER BY {order} LIMIT %(limit)s"""


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """A group of a search."""

    run_id: int
    id: int
    score_mean: float
    score_min: float
    score_max: float
    sequences: int
    longest_tokens: int
    policy_step: int | None
    received_at: datetime
    excerpt: str
    lesson: str
    worker: str
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGroups:
    """A page of groups, and its end."""

    rows: list[FoundGroup]
    next: Position | None
    is_partial: bool


def found_groups(
    runs: Sequence[int],
    search: TrajectoryFilter,
    *,
    limit: int,
    after: Position | None,
    examined: int = ROWS_EXAMINED,
) -> FoundGroups:
    """Return a page of the groups with stored bytes that match a filter.

    Args:
        runs: Ids of the runs.
        search: The filter.
        limit: Maximum number of rows.
        after: Position of the last row of the previous page.
        examined: Maximum number of groups to read; a page may need more in many runs.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    columns, is_descending = _SORTED[search.sort]
    params: dict[str, Any] = {
        "runs": list(runs),
        "each": rows_of_each(
            len(runs), limit=limit, rows=examined if _is_cut(search) else limit + 1
        ),
        "limit": limit + 1,
        "text": search.text,
        "environment": search.environment,
        "least": search.least,
        "most": search.most,
        "since": search.since,
        "until": search.until,
    }
    source = _source(search, params, after=after)
    tests = _tests(search)
    with bounded_cursor() as cursor:
        end = None
        if _is_cut(search):
            end = horizon(cursor, source, params, columns=columns, is_descending=is_descending)
        if end is not None:
            params |= {f"end_{index}": value for index, value in enumerate(end)}
            places = ", ".join(f"%(end_{index})s" for index in range(len(end)))
            tests.append(f"({_of('x', columns)}) {'>=' if is_descending else '<='} ({places})")
        where = f"WHERE {' AND '.join(tests)}" if tests else ""
        order = ", ".join(
            f"{_of('x', column)} {'DESC' if is_descending else 'ASC'}"
            for column in columns.split(", ")
        )
        cursor.execute(_ROWS.format(source=source, where=where, order=order), params)
        rows = [FoundGroup(*row) for row in cursor.fetchall()]
    if len(rows) > limit:
        rows = rows[:limit]
        return FoundGroups(rows=rows, next=_position(rows[-1], search), is_partial=False)
    return FoundGroups(
        rows=rows,
        next=None if end is None else Position(*((None, *end) if len(end) == 1 else end)),
        is_partial=end is not None,
    )


def _source(search: TrajectoryFilter, params: dict[str, Any], *, after: Position | None) -> str:
    """Return the query of the examined rows."""
    columns, is_descending = _SORTED[search.sort]
    sign = "<" if is_descending else ">"
    table = "d"
    if search.sort is TrajectorySort.NEWEST and not search.text:
        table = "g"
    beyond = ""
    if after is not None:
        params |= {"after_value": after.value, "after_id": after.row}
        values = "(%(after_id)s)"
        if search.sort is not TrajectorySort.NEWEST:
            values = "(%(after_value)s::float8, %(after_id)s)"
        names = _of(table, columns).replace("g.group_id", "g.id")
        beyond = f"AND ({names}) {sign} {values}"
    if search.text:
        return _WORDED.format(beyond=beyond)
    if search.sort is TrajectorySort.NEWEST:
        return _EACH.format(rows=_NEWEST.format(beyond=beyond))
    # Bounds on the score are ranges of the index.
    if search.least is not None:
        beyond += " AND d.score_mean >= %(least)s"
    if search.most is not None:
        beyond += " AND d.score_mean <= %(most)s"
    direction = "DESC" if is_descending else "ASC"
    return _EACH.format(rows=_BY_SCORE.format(beyond=beyond, direction=direction))


def _is_cut(search: TrajectoryFilter) -> bool:
    """Return whether examined rows may not match, so that their number is bounded.

    Every row of a search for words is examined. Bounds on the score are part of the index of a
    list by score.
    """
    if search.sort is not TrajectorySort.NEWEST:
        search = replace(search, least=None, most=None)
    return not (search.is_open or search.text)


def _of(table: str, columns: str) -> str:
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


def _tests(search: TrajectoryFilter) -> list[str]:
    tests = {
        "g.score_mean >= %(least)s": search.least is not None,
        "g.score_mean <= %(most)s": search.most is not None,
        "g.received_at >= %(since)s": search.since is not None,
        "g.received_at <= %(until)s": search.until is not None,
        _IN_ENVIRONMENT: bool(search.environment),
    }
    return [test for test, applies in tests.items() if applies]


def _position(row: FoundGroup, search: TrajectoryFilter) -> Position:
    is_by_id = search.sort is TrajectorySort.NEWEST
    return Position(None if is_by_id else row.score_mean, row.id)
