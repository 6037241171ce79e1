"""Search for trajectories in several runs: groups from digests, episodes from fleets' reports.

A search reads at most :data:`ROWS_EXAMINED` rows in index order, so that a filter with few matches
costs no more than one that matches every row. Where the rows of a run are cut off, the rows of all
runs count only up to the first such cut (the *horizon*): beyond it, rows of the cut run are
unknown.

A report lists its last 100 episodes, and its lowest and its highest one. Episodes of reports
without env slots cannot be identified in stored fragments and are not found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from buffer.inspect.queries.group_contents import Undigested, fresh_digests
from buffer.inspect.queries.group_lists import bounded_cursor
from rolldeck.fleet_wire import episode_id, slot_name
from rollouts.trajectories.rules import (
    RUNS_AT_MOST,
    InvalidSearch,
    Position,
    TrajectoryFilter,
    TrajectoryKind,
    TrajectorySort,
)
from rollouts.trajectories.schemas import TrajectoryRow
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.queries import readable_run
from runs.search.queries.lists import filtered
from runs.search.rules import InvalidFilter
from web.rules.amounts import finite_or_none

ROWS_EXAMINED: Final = 20_000
"""Maximum number of groups, or of reports, that a page reads; it may need more in many runs."""

_SORTED: Final = {
    TrajectorySort.NEWEST: ("group_id", True),
    TrajectorySort.HIGHEST: ("score_mean, group_id", True),
    TrajectorySort.LOWEST: ("score_mean, group_id", False),
}
_EACH_RUN: Final = """
    SELECT d.* FROM unnest(%(runs)s::bigint[]) AS r(run) CROSS JOIN LATERAL ({rows}) d"""
# The newest groups of a run are read from the index of the list of its groups.
_NEWEST_GROUPS: Final = """
    SELECT g.run_id, g.id AS group_id, g.score_mean FROM buffer_trajectorygroup g
    WHERE g.run_id = r.run AND g.segment IS NOT NULL {beyond}
    ORDER BY g.id DESC LIMIT %(each)s"""
_GROUPS_BY_SCORE: Final = """
    SELECT d.run_id, d.group_id, d.score_mean FROM buffer_groupdigest d
    WHERE d.run_id = r.run {beyond}
    ORDER BY d.score_mean {direction}, d.group_id {direction} LIMIT %(each)s"""
# One index of words serves all runs, so a search for words reads no rows run by run.
_GROUPS_WITH_WORDS: Final = """
    SELECT d.run_id, d.group_id, d.score_mean FROM buffer_groupdigest d
    WHERE d.words @@ websearch_to_tsquery('simple', %(text)s)
        AND d.run_id = ANY(%(runs)s::bigint[]) {beyond}"""
_IN_ENVIRONMENT: Final = """(d.lesson = %(environment)s OR (g.run_id, g.env_id) IN (
    SELECT run_id, env_id FROM runs_environment
    WHERE %(environment)s IN (wandb_name, desired_name)))"""
_GROUP_FIELDS: Final = (
    *("environment", "lesson", "score", "score_min", "score_max", "sequences", "length"),
    *("worker", "policy_step", "at", "excerpt", "answer"),
)
_GROUPS: Final = """
    SELECT x.run_id, g.id, COALESCE(e.wandb_name, ''), COALESCE(d.lesson, ''), g.score_mean,
        g.score_min, g.score_max, g.sequences, g.longest_tokens,
        COALESCE(NULLIF(d.worker, ''), g.producer), g.policy_step, g.received_at,
        COALESCE(d.excerpt, ''), COALESCE(d.answer, ''), d.group_id IS NULL, g.env_id, g.size_bytes
    FROM ({source}) x JOIN buffer_trajectorygroup g ON g.id = x.group_id
    LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
    LEFT JOIN runs_environment e ON e.run_id = g.run_id AND e.env_id = g.env_id
    {where} ORDER BY {order} LIMIT %(limit)s"""
_NEWEST_REPORTS: Final = """
    SELECT w.run_id, w.id FROM unnest(%(runs)s::bigint[]) AS r(run) CROSS JOIN LATERAL (
        SELECT id, run_id FROM rollouts_episodewindow
        WHERE run_id = r.run {beyond} ORDER BY id DESC LIMIT %(each)s
    ) w"""
_REPORTS: Final = """
    SELECT w.* FROM ({newest}) n JOIN rollouts_episodewindow w ON w.id = n.id
    WHERE {tests} {most_extreme}"""
# Episodes at one end of a report that lists too few of its episodes follow the listed ones.
_EPISODES_OF_REPORTS: Final = """
    SELECT w.id, w.run_id, w.at, w.environment, w.worker, w.incarnation, w.policy_step,
        e.slot, e.number, e.place, e.length,
        CASE e.place - cardinality(w.returns) WHEN 1 THEN w.return_min WHEN 2 THEN w.return_max
            ELSE e.total END AS total
    FROM ({reports}) w CROSS JOIN LATERAL
        unnest(w.returns, w.lengths, w.slots, w.numbers) WITH ORDINALITY
            AS e(total, length, slot, number, place)
    WHERE e.place <= cardinality(w.returns) OR (
        w.count > cardinality(w.returns) AND e.place <= cardinality(w.returns) + 2
        AND NOT EXISTS (
            SELECT FROM unnest(w.slots, w.numbers) WITH ORDINALITY AS o(slot, number, place)
            WHERE o.place < e.place AND (o.slot, o.number) = (e.slot, e.number)))"""

_EPISODE_FIELDS: Final = ("environment", "score", "length", "policy_step", "at")
_OF_GROUPS_ONLY: Final[dict[str, Any]] = {
    "lesson": "",
    "excerpt": "",
    "answer": "",
    "sequences": None,
    "score_min": None,
    "score_max": None,
}
_EPISODES: Final = """
    SELECT run_id, id, place, slot, number, incarnation, worker, environment, total, length,
        policy_step, at
    FROM ({episodes}) found {where} ORDER BY {order} LIMIT %(limit)s"""
_ORDERS: Final = {
    TrajectorySort.NEWEST: "id DESC, place DESC",
    TrajectorySort.HIGHEST: "total DESC, id DESC, place DESC",
    TrajectorySort.LOWEST: "total ASC, id DESC, place DESC",
}
_AFTER: Final = {
    TrajectorySort.NEWEST: "(id, place) < (%(after_id)s, %(after_place)s)",
    TrajectorySort.HIGHEST: "(total, id, place) < (%(after)s, %(after_id)s, %(after_place)s)",
    TrajectorySort.LOWEST: """(total > %(after)s OR total = %(after)s
        AND (id, place) < (%(after_id)s, %(after_place)s))""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRun:
    """A run of a search."""

    id: int
    address: str
    project: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRuns:
    """The runs of a search, by id, and the number of older ones left out."""

    runs: dict[int, SearchedRun]
    left_out: int = 0


class Found(NamedTuple):
    """A trajectory, and its position in a list by score or return."""

    position: Position
    row: TrajectoryRow


class TrajectoryPage(NamedTuple):
    """A page of trajectories, and its end."""

    rows: list[TrajectoryRow]
    next: Position | None
    """Where the next page begins; None if no page continues the list."""
    is_partial: bool
    """Whether the search has read as many rows as it may."""


def searched_runs(
    *, run: str, runs: str, bound_to: str | None, kind: TrajectoryKind, now: datetime
) -> SearchedRuns:
    """Return the runs of a search, newest first, at most :data:`RUNS_AT_MOST`.

    Args:
        run: Address of the only run, or empty.
        runs: Filter in the language of the list of runs, or empty.
        bound_to: Name of the only run that the caller may read; None for all.
        kind: Kind of trajectories; runs of the other kind have none.
        now: The present time, for ages in the filter.

    Raises:
        InvalidSearch: If `runs` is invalid.
        RunNotFound: If there is no run at the address.
    """
    try:
        found = filtered(runs, now=now)
    except InvalidFilter as error:
        raise InvalidSearch("runs", error.message or str(error)) from error
    if run:
        # An address also reaches an archived run, which a filter finds only with is:archived.
        found = (found if runs else Run.objects.all()).filter(pk=readable_run(run).pk)
    if bound_to is not None:
        found = found.filter(pk=readable_run(bound_to).pk)
    is_fleet = kind is TrajectoryKind.EPISODE
    found = found.filter(kind=RunKind.FLEET) if is_fleet else found.exclude(kind=RunKind.FLEET)
    rows = found.order_by("-id").values_list("id", "name", "archived_at", "project__name")
    return SearchedRuns(
        runs={
            pk: SearchedRun(
                id=pk, address=name if archived_at is None else f"{name}--{pk}", project=project
            )
            for pk, name, archived_at, project in rows[:RUNS_AT_MOST]
        },
        left_out=max(0, found.count() - RUNS_AT_MOST),
    )


def found_trajectories(
    runs: Mapping[int, SearchedRun],
    search: TrajectoryFilter,
    *,
    limit: int,
    after: Position | None,
    examined: int = ROWS_EXAMINED,
) -> TrajectoryPage:
    """Return a page of the groups with stored bytes, or of the training episodes, that match.

    Args:
        runs: The runs, by id.
        search: The filter.
        limit: Maximum number of rows.
        after: Position of the last row of the previous page.
        examined: Maximum number of groups, or newest reports, to read; a list by return covers no
            older reports.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    read = _groups if search.kind is TrajectoryKind.GROUP else _episodes
    params: dict[str, Any] = {
        "runs": list(runs),
        "limit": limit + 1,
        "each": rows_of_each(
            len(runs), limit=limit, rows=examined if _is_bounded(search) else limit + 1
        ),
        "text": search.text,
        "environment": search.environment,
        "least": search.least,
        "most": search.most,
        "since": search.since,
        "until": search.until,
    }
    if after is not None:
        params |= {"after": after.value, "after_id": after.row, "after_place": after.place}
    found, end, is_cut = read(runs, search, params, after=after)
    rows = [row for _, row in found[:limit]]
    if len(found) > limit:
        position = found[limit - 1].position
        if search.sort is TrajectorySort.NEWEST:
            position = position._replace(value=None)
        return TrajectoryPage(rows, position, is_partial=False)
    return TrajectoryPage(rows, end, is_partial=is_cut)


def _groups(
    runs: Mapping[int, SearchedRun],
    search: TrajectoryFilter,
    params: dict[str, Any],
    *,
    after: Position | None,
) -> tuple[list[Found], Position | None, bool]:
    """Return up to a page and one group; where a cut search continues; whether it was cut."""
    columns, is_descending = _SORTED[search.sort]
    source = _group_source(search, after=after)
    where = _applying(
        {
            "g.score_mean >= %(least)s": search.least is not None,
            "g.score_mean <= %(most)s": search.most is not None,
            "g.received_at >= %(since)s": search.since is not None,
            "g.received_at <= %(until)s": search.until is not None,
            _IN_ENVIRONMENT: bool(search.environment),
        }
    )
    with bounded_cursor() as cursor:
        end = None
        if _is_bounded(search):
            end = _horizon(cursor, source, params, columns=columns, is_descending=is_descending)
        if end is not None:
            params |= {f"end_{index}": value for index, value in enumerate(end)}
            places = ", ".join(f"%(end_{index})s" for index in range(len(end)))
            where.append(f"({_of('x', columns)}) {'>=' if is_descending else '<='} ({places})")
        order = ", ".join(
            f"{_of('x', column)} {'DESC' if is_descending else 'ASC'}"
            for column in columns.split(", ")
        )
        cursor.execute(_GROUPS.format(source=source, where=_where(where), order=order), params)
        rows = cursor.fetchall()
    made = fresh_digests(
        Undigested(run_id, group, env_id, size_bytes)
        for run_id, group, *_, is_undigested, env_id, size_bytes in rows
        if is_undigested
    )
    found = []
    for run_id, group, *values, _, _, _ in rows:
        row = dict(zip(_GROUP_FIELDS, values, strict=True))
        position = Position(row["score"], group)
        row |= {name: finite_or_none(row[name]) for name in ("score", "score_min", "score_max")}
        if (digest := made.get(group)) is not None:
            row |= {name: getattr(digest, name) for name in ("lesson", "excerpt", "answer")}
            row["worker"] = digest.worker or row["worker"]
        found.append(Found(position, _row(runs[run_id], kind="group", id=str(group), **row)))
    if end is None:
        return found, None, False
    return found, Position(*((None, *end) if len(end) == 1 else end)), True


def _episodes(
    runs: Mapping[int, SearchedRun],
    search: TrajectoryFilter,
    params: dict[str, Any],
    *,
    after: Position | None,
) -> tuple[list[Found], Position | None, bool]:
    """Return up to a page and one episode; where a cut search continues; whether it was cut."""
    is_newest_first, is_after = search.sort is TrajectorySort.NEWEST, after is not None
    beyond = "AND id <= %(after_id)s" if is_after and is_newest_first else ""
    newest = _NEWEST_REPORTS.format(beyond=beyond)
    where = _applying(
        {
            _AFTER[search.sort]: is_after,
            "total >= %(least)s": search.least is not None,
            "total <= %(most)s": search.most is not None,
        }
    )
    # Conditions on a report: it may contain a matching episode.
    report_tests = [
        "w.mode = 'train' AND cardinality(w.slots) > cardinality(w.returns)",
        *_applying(
            {
                "w.environment = %(environment)s": bool(search.environment),
                "w.at >= %(since)s": search.since is not None,
                "w.at <= %(until)s": search.until is not None,
                "w.return_max >= %(least)s": search.least is not None,
                "w.return_min <= %(most)s": search.most is not None,
                "w.return_max >= %(after)s": is_after and search.sort is TrajectorySort.LOWEST,
                "w.return_min <= %(after)s": is_after and search.sort is TrajectorySort.HIGHEST,
            }
        ),
    ]
    with bounded_cursor() as cursor:
        end = _horizon(cursor, newest, params, columns="id", is_descending=True)
        if end is not None and is_newest_first:
            params["end"] = end[0]
            where.append("id >= %(end)s")
        reports = _REPORTS.format(
            newest=newest,
            tests=" AND ".join(report_tests),
            most_extreme=_most_extreme(search, after=after),
        )
        query = _EPISODES.format(
            episodes=_EPISODES_OF_REPORTS.format(reports=reports),
            where=_where(where),
            order=_ORDERS[search.sort],
        )
        cursor.execute(query, params)
        found = []
        for run_id, report, place, slot, number, incarnation, worker, *values in cursor.fetchall():
            row = dict(zip(_EPISODE_FIELDS, values, strict=True))
            position = Position(row["score"], report, place)
            row["score"] = finite_or_none(row["score"])
            name = slot_name(worker=worker, slot=slot, incarnation=incarnation)
            row |= _OF_GROUPS_ONLY | {"id": episode_id(name, number), "worker": f"w{worker}"}
            found.append(Found(position, _row(runs[run_id], kind="episode", **row)))
    # The first place of the last report: the next page begins after it.
    following = Position(None, end[0], 1) if end is not None and is_newest_first else None
    return found, following, end is not None


def _row(run: SearchedRun, **fields: Any) -> TrajectoryRow:
    return TrajectoryRow(run=run.address, project=run.project, **fields)


def _group_source(search: TrajectoryFilter, *, after: Position | None) -> str:
    """Return the query of the examined groups."""
    columns, is_descending = _SORTED[search.sort]
    beyond = ""
    if after is not None:
        is_listed = search.sort is TrajectorySort.NEWEST and not search.text
        names = _of("g", "id") if is_listed else _of("d", columns)
        is_by_id = search.sort is TrajectorySort.NEWEST
        values = "%(after_id)s" if is_by_id else "%(after)s::float8, %(after_id)s"
        beyond = f"AND ({names}) {'<' if is_descending else '>'} ({values})"
    if search.text:
        return _GROUPS_WITH_WORDS.format(beyond=beyond)
    if search.sort is TrajectorySort.NEWEST:
        return _EACH_RUN.format(rows=_NEWEST_GROUPS.format(beyond=beyond))
    # Bounds on the score are ranges of the index.
    if search.least is not None:
        beyond += " AND d.score_mean >= %(least)s"
    if search.most is not None:
        beyond += " AND d.score_mean <= %(most)s"
    direction = "DESC" if is_descending else "ASC"
    return _EACH_RUN.format(rows=_GROUPS_BY_SCORE.format(beyond=beyond, direction=direction))


def _is_bounded(search: TrajectoryFilter) -> bool:
    """Return whether examined rows may not match, so that their number is bounded.

    A report may contain no matching episode. Every row of a search for words is examined. Bounds
    on the score are part of the index of a list by score.
    """
    if search.kind is TrajectoryKind.EPISODE:
        return True
    if search.sort is not TrajectorySort.NEWEST:
        search = replace(search, least=None, most=None)
    return not (search.is_open or search.text)


def _of(table: str, columns: str) -> str:
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


def _most_extreme(search: TrajectoryFilter, *, after: Position | None) -> str:
    """Return a limit on the reports for the first page of a list by return.

    Each report contains its extreme episode, so the most extreme n episodes are in the n reports
    with the most extreme ones. This does not hold for lists that begin elsewhere.
    """
    if after is not None:
        return ""
    if search.sort is TrajectorySort.LOWEST and search.least is None:
        return "ORDER BY w.return_min, w.id DESC LIMIT %(limit)s"
    if search.sort is TrajectorySort.HIGHEST and search.most is None:
        return "ORDER BY w.return_max DESC, w.id DESC LIMIT %(limit)s"
    return ""


def rows_of_each(runs: int, *, limit: int, rows: int) -> int:
    """Return the number of rows to examine in each of some runs.

    At least one more than a page, so that a list without filters is never cut.
    """
    return max(limit + 1, rows // max(1, runs))


def _horizon(
    cursor: Any, source: str, params: dict[str, Any], *, columns: str, is_descending: bool
) -> tuple[Any, ...] | None:
    """Return the sort values at which the rows of the first cut run end; None without a cut.

    Args:
        cursor: Cursor of the database.
        source: Query of the examined rows, with `run_id` and the columns.
        params: Its parameters, with `each`, the number of rows per run.
        columns: Sort columns.
        is_descending: Whether the list is in descending order of them.
    """
    direction, beyond = ("ASC", "DESC") if is_descending else ("DESC", "ASC")
    last = ", ".join(f"{column} {direction}" for column in columns.split(", "))
    first = ", ".join(f"{column} {beyond}" for column in columns.split(", "))
    cursor.execute(
        f"""SELECT {columns} FROM (
            SELECT {columns}, count(*) OVER (PARTITION BY run_id) AS examined,
                row_number() OVER (PARTITION BY run_id ORDER BY {last}) AS place
            FROM ({source}) rows
        ) ends WHERE place = 1 AND examined >= %(each)s ORDER BY {first} LIMIT 1""",  # noqa: S608
        params,
    )
    found: tuple[Any, ...] | None = cursor.fetchone()
    return found


def _applying(tests: Mapping[str, bool]) -> list[str]:
    return [test for test, applies in tests.items() if applies]


def _where(tests: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(tests)}" if tests else ""
