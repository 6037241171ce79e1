"""Search for training episodes in several runs, from the reports of their fleets.

A report lists its last 100 episodes, and its lowest and its highest one. Episodes of reports
without env slots cannot be identified in stored fragments and are not found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from buffer.inspect.queries.group_lists import bounded_cursor
from rolldeck.fleet_wire import episode_id, slot_name
from rollouts.trajectories.queries.examined import horizon, rows_of_each
from rollouts.trajectories.rules import Position, TrajectoryFilter, TrajectorySort

REPORTS_EXAMINED: Final = 20_000
_NEWEST: Final = """
    SELECT w.run_id, w.id FROM unnest(%(runs)s::bigint[]) AS r(run) CROSS JOIN LATERAL (
        SELECT id, run_id FROM rollouts_episodewindow
        WHERE run_id = r.run {beyond} ORDER BY id DESC LIMIT %(each)s
    ) w"""
_REPORTS: Final = """
    SELECT w.* FROM ({newest}) n JOIN rollouts_episodewindow w ON w.id = n.id
    WHERE {tests} {most_extreme}"""
# Episodes at one end of a report that lists too few of its episodes follow the listed ones.
_EPISODES: Final = """
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
_ROWS: Final = """
    SELECT id, run_id, at, environment, worker, incarnation, policy_step, slot, number, place,
        length, total
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


@dataclass(frozen=True, slots=True)
class FoundEpisode:
    """An episode of a search."""

    report: int
    run_id: int
    at: datetime
    environment: str
    worker: int
    incarnation: str
    policy_step: int
    slot: int
    number: int
    place: int
    """Index in its report, from 1."""
    length: int | None
    """Env steps; None if the report does not list the episode."""
    total_return: float

    @property
    def id(self) -> str:
        """Id of the episode in fragments."""
        slot = slot_name(worker=self.worker, slot=self.slot, incarnation=self.incarnation)
        return episode_id(slot, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEpisodes:
    """A page of episodes, and its end."""

    rows: list[FoundEpisode]
    next: Position | None
    is_partial: bool


def found_episodes(
    runs: Sequence[int],
    search: TrajectoryFilter,
    *,
    limit: int,
    after: Position | None,
    examined: int = REPORTS_EXAMINED,
) -> FoundEpisodes:
    """Return a page of the training episodes that match a filter.

    Args:
        runs: Ids of the runs.
        search: The filter.
        limit: Maximum number of rows.
        after: Position of the last row of the previous page.
        examined: Number of newest reports to read; a list by return covers no older ones.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    is_newest_first = search.sort is TrajectorySort.NEWEST
    params: dict[str, Any] = {
        "runs": list(runs),
        "each": rows_of_each(len(runs), limit=limit, rows=examined),
        "limit": limit + 1,
        "environment": search.environment,
        "since": search.since,
        "until": search.until,
        "least": search.least,
        "most": search.most,
    }
    beyond = ""
    if after is not None:
        params |= {"after": after.value, "after_id": after.row, "after_place": after.place}
        if is_newest_first:
            beyond = "AND id <= %(after_id)s"
    newest = _NEWEST.format(beyond=beyond)
    where = [] if after is None else [_AFTER[search.sort]]
    if search.least is not None:
        where.append("total >= %(least)s")
    if search.most is not None:
        where.append("total <= %(most)s")
    with bounded_cursor() as cursor:
        end = horizon(cursor, newest, params, columns="id", is_descending=True)
        if end is not None and is_newest_first:
            params["end"] = end[0]
            where.append("id >= %(end)s")
        reports = _REPORTS.format(
            newest=newest,
            tests=" AND ".join(_tests(search, after=after)),
            most_extreme=_most_extreme(search, after=after),
        )
        query = _ROWS.format(
            episodes=_EPISODES.format(reports=reports),
            where=f"WHERE {' AND '.join(where)}" if where else "",
            order=_ORDERS[search.sort],
        )
        cursor.execute(query, params)
        rows = [FoundEpisode(*row) for row in cursor.fetchall()]
    return _page(rows, search, limit=limit, end=end)


def _page(
    rows: list[FoundEpisode],
    search: TrajectoryFilter,
    *,
    limit: int,
    end: tuple[Any, ...] | None,
) -> FoundEpisodes:
    """Return the page of up to `limit` + 1 rows; `end` is the last report that was read."""
    is_newest_first = search.sort is TrajectorySort.NEWEST
    if len(rows) > limit:
        last = rows[limit - 1]
        value = None if is_newest_first else last.total_return
        place = Position(value, last.report, last.place)
        return FoundEpisodes(rows=rows[:limit], next=place, is_partial=False)
    # The first place of the last report: the next page begins after it.
    place_at_end = None if end is None or not is_newest_first else Position(None, end[0], 1)
    return FoundEpisodes(rows=rows, next=place_at_end, is_partial=end is not None)


def _tests(search: TrajectoryFilter, *, after: Position | None) -> list[str]:
    """Return the conditions on a report ``w``: it may contain a matching episode."""
    tests = {
        "w.environment = %(environment)s": bool(search.environment),
        "w.at >= %(since)s": search.since is not None,
        "w.at <= %(until)s": search.until is not None,
        "w.return_max >= %(least)s": search.least is not None,
        "w.return_min <= %(most)s": search.most is not None,
        "w.return_max >= %(after)s": after is not None and search.sort is TrajectorySort.LOWEST,
        "w.return_min <= %(after)s": after is not None and search.sort is TrajectorySort.HIGHEST,
    }
    return [
        "w.mode = 'train' AND cardinality(w.slots) > cardinality(w.returns)",
        *(test for test, applies in tests.items() if applies),
    ]


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
