"""Lists of the samples of several runs: groups, fragments, and episodes from fleets' reports.

A report lists its last 100 episodes, and its lowest and its highest one. Episodes of reports
without env slots cannot be identified in stored fragments and are not found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from buffer.inspect.queries.fragment_lists import fragment_page
from buffer.inspect.queries.group_lists import ROWS_EXAMINED as GROUPS_EXAMINED
from buffer.inspect.queries.group_lists import (
    digest_lag,
    group_page,
    partly_searchable,
    position_beside,
)
from buffer.inspect.queries.sample_lists import (
    EACH_RUN,
    Condition,
    bounded_cursor,
    moment,
    numeric,
    or_last,
    rows_of_each,
    tests_of,
    text,
)
from buffer.inspect.queries.samples import SampledRun, fragment_samples, group_samples
from buffer.inspect.rules.facts import is_fact
from buffer.inspect.rules.sample_filter import (
    RUNS_AT_MOST,
    InvalidSearch,
    Position,
    SampleFilter,
    SampleKind,
)
from buffer.inspect.schemas import SampleRow
from rolldeck.fleet_wire import episode_id, slot_name
from rollouts.trajectories.schemas import TrajectoryList
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.queries import readable_run
from runs.projects.rules import is_project_uid
from runs.search.rules import Term
from runs.search.schemas import ValueRow
from web.rules.amounts import finite_or_none
from web.rules.pages import PageRequest

ROWS_EXAMINED: Final = 20_000
"""Maximum number of reports, or of groups of several runs, that a page reads; more in many runs."""
VALUES_AT_MOST: Final = 20
VALUES_EXAMINED: Final = 10_000
"""Number of newest samples whose values are offered."""
KEYS_AT_MOST: Final = 200
KEYS_EXAMINED: Final = 2_000
"""Number of newest groups whose keys are offered as columns."""
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
_CONDITIONS_OF_REPORTS: Final[dict[str, Condition]] = {
    "env": text("w.environment"),
    "version": numeric("w.policy_step"),
    "worker": text("'w' || w.worker"),
    "arrived": moment("w.at"),
}
_CONDITIONS_OF_EPISODES: Final[dict[str, Condition]] = {
    "score": numeric("total"),
    "length": numeric("length"),
}
_EPISODES: Final = """
    SELECT found.run_id, slot, number, incarnation, worker, environment, total, length,
        found.policy_step, at, {value}, found.id, place
    FROM ({episodes}) found JOIN runs_run o ON o.id = found.run_id
    {where} ORDER BY {order} LIMIT %(limit)s"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRuns:
    """The runs of a list, by id, and the number of older ones left out."""

    runs: dict[int, SampledRun]
    left_out: int = 0


def sampled_runs(
    wanted: SampleFilter, *, run: str = "", bound_to: str | None = None
) -> SampledRuns:
    """Return the runs of a list, newest first, at most :data:`RUNS_AT_MOST`.

    Args:
        wanted: The filter; archived runs match only by a whole address.
        run: Address of the only run, or empty.
        bound_to: Name of the only run that the caller may read; None for all.

    Raises:
        RunNotFound: If there is no run at the address.
    """
    found = Run.objects.all()
    if run:
        found = found.filter(pk=readable_run(run).pk)
    elif not any(term.name == "run" and term.operator in (":", "=") for term in wanted.run_terms):
        found = found.filter(archived_at=None)
    for term in wanted.run_terms:
        condition = _of_run(term)
        found = found.exclude(condition) if term.negated else found.filter(condition)
    if bound_to is not None:
        found = found.filter(pk=readable_run(bound_to).pk)
    is_fleet = wanted.kind is not SampleKind.GROUP
    found = found.filter(kind=RunKind.FLEET) if is_fleet else found.exclude(kind=RunKind.FLEET)
    rows = found.select_related("project").order_by("-id")[:RUNS_AT_MOST]
    return SampledRuns(
        runs={row.pk: SampledRun.of(row) for row in rows},
        left_out=max(0, found.count() - RUNS_AT_MOST),
    )


def _of_run(term: Term) -> Q:
    """Return the condition that a run meets one of the values of a term."""
    found = Q(pk__in=[])
    for value in map(str, term.values):
        if term.name == "project" and is_project_uid(value):
            found |= Q(project__uid=value)
        elif term.name == "project":
            found |= Q(
                **{f"project__name__{'icontains' if term.operator == '~' else 'iexact'}": value}
            )
        elif term.operator == "~":
            found |= Q(name__icontains=value)
        elif (run := Run.objects.at(value)) is not None:
            found |= Q(pk=run.pk)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Beginning of a first page: next to a group, in the order of the list or against it."""

    group: int
    backward: bool


def samples(
    covered: SampledRuns,
    wanted: SampleFilter,
    page: PageRequest[Position],
    *,
    beside: Beside | None = None,
    named: Sequence[str] = (),
    now: datetime,
) -> TrajectoryList:
    """Return a page of the samples of runs that match a filter.

    Args:
        covered: The runs.
        wanted: The filter.
        page: The requested page.
        beside: Where the first page begins; None for the beginning of the list.
        named: Facts of groups that are columns.
        now: Reference time of ages.

    Raises:
        InvalidFilter: If it selects an episode of fragments in other than one run.
        InvalidSearch: If `beside` is of other samples than groups of one run.
        GroupNotFound: If the run has no such group.
        SearchTooSlow: If the database takes too long.
    """
    runs, after = list(covered.runs), page.after
    if beside is not None:
        if wanted.kind is not SampleKind.GROUP or len(runs) != 1:
            raise InvalidSearch("from_group", "needs one run with groups: add run")
        after = after or position_beside(runs[0], beside.group, wanted)
    if wanted.kind is SampleKind.GROUP:
        groups = group_page(
            runs,
            wanted,
            limit=page.limit,
            now=now,
            after=after,
            backward=beside is not None and beside.backward,
            examined=ROWS_EXAMINED if len(runs) > 1 else GROUPS_EXAMINED,
        )
        rows = group_samples(covered.runs, groups.rows, named)
        following, is_partial = groups.next, groups.is_partial
    elif wanted.kind is SampleKind.FRAGMENT:
        fragments = fragment_page(runs, wanted, limit=page.limit, now=now, after=after)
        rows = fragment_samples(covered.runs, fragments)
        following, is_partial = fragments.next, fragments.is_partial
    else:
        rows, following, is_partial = episode_page(
            covered.runs, wanted, limit=page.limit, now=now, after=after
        )
    is_of_groups = wanted.kind is SampleKind.GROUP and page.after is None
    return TrajectoryList(
        results=rows,
        next=None if following is None else page.cursor(following),
        is_partial=is_partial,
        runs=len(runs),
        runs_left_out=covered.left_out,
        unindexed=digest_lag(runs[0]) if is_of_groups and len(runs) == 1 else 0,
        partly_searched=partly_searchable(runs) if is_of_groups and wanted.words else 0,
    )


def episode_page(
    runs: Mapping[int, SampledRun],
    wanted: SampleFilter,
    *,
    limit: int,
    now: datetime,
    after: Position | None,
    examined: int = ROWS_EXAMINED,
) -> tuple[list[SampleRow], Position | None, bool]:
    """Return a page of training episodes, where the next begins, and whether the search was cut.

    A list that is not newest first covers only the newest reports.
    """
    is_by_time = wanted.key == "arrived"
    params: dict[str, Any] = {
        "runs": list(runs),
        "limit": limit + 1,
        "each": rows_of_each(len(runs), limit=limit, rows=examined),
    }
    if after is not None:
        params |= {"after": after.value, "after_id": after.row, "after_place": after.place}
    newest = _NEWEST_REPORTS.format(
        beyond="AND id <= %(after_id)s" if is_by_time and after is not None else ""
    )
    of_reports = [term for term in wanted.terms if term.name in _CONDITIONS_OF_REPORTS]
    of_episodes = [term for term in wanted.terms if term.name in _CONDITIONS_OF_EPISODES]
    report_tests = [
        "w.mode = 'train' AND cardinality(w.slots) > cardinality(w.returns)",
        *tests_of(of_reports, _CONDITIONS_OF_REPORTS, params, now=now).values(),
    ]
    more: dict[str, Any] = {}
    where = list(tests_of(of_episodes, _CONDITIONS_OF_EPISODES, more, now=now).values())
    # The names of parameters are those of the terms' places in their own list.
    where = [test.replace("term_", "episode_") for test in where]
    params |= {name.replace("term_", "episode_"): value for name, value in more.items()}
    value = _sort_value(wanted.key, is_descending=wanted.is_descending)
    sign, direction = ("<", "DESC") if wanted.is_descending else (">", "ASC")
    order = "found.id DESC, place DESC"
    if after is not None and is_by_time:
        where.append("(found.id, place) < (%(after_id)s, %(after_place)s)")
    elif after is not None:
        where.append(
            f"({value} {sign} %(after)s OR {value} = %(after)s"
            " AND (found.id, place) < (%(after_id)s, %(after_place)s))"
        )
    if not is_by_time:
        order = f"{value} {direction}, {order}"
    with bounded_cursor() as cursor:
        end = _last_report(cursor, newest, params)
        if end is not None and is_by_time:
            params["end"] = end
            where.append("found.id >= %(end)s")
        reports = _REPORTS.format(
            newest=newest,
            tests=" AND ".join(report_tests),
            most_extreme=""
            if of_episodes or after is not None
            else _MOST_EXTREME.get(wanted.sort, ""),
        )
        cursor.execute(
            _EPISODES.format(
                value=value,
                episodes=_EPISODES_OF_REPORTS.format(reports=reports),
                where=f"WHERE {' AND '.join(where)}" if where else "",
                order=order,
            ),
            params,
        )
        found = cursor.fetchall()
    rows = [_episode(runs, *row[:-3]) for row in found[:limit]]
    if len(found) > limit:
        last = found[limit - 1]
        return rows, Position(None if is_by_time else last[-3], *last[-2:]), False
    # The first place of the last report: the next page begins after it.
    following = Position(None, end, 1) if end is not None and is_by_time else None
    return rows, following, end is not None


def _sort_value(key: str, *, is_descending: bool) -> str:
    if key in ("length", "version"):
        return or_last(
            "length" if key == "length" else "found.policy_step", is_descending=is_descending
        )
    return {"score": "total", "env": "environment", "run": "o.name"}.get(key, "NULL::float8")


# Each report contains its extreme episode, so the most extreme n episodes are in the n reports
# with the most extreme ones. This does not hold for lists that begin elsewhere.
_MOST_EXTREME: Final = {
    "score": "ORDER BY w.return_min, w.id DESC LIMIT %(limit)s",
    "-score": "ORDER BY w.return_max DESC, w.id DESC LIMIT %(limit)s",
}


def _last_report(cursor: Any, newest: str, params: dict[str, Any]) -> int | None:
    """Return the newest of the last examined reports of cut runs; None without a cut."""
    cursor.execute(
        f"""SELECT max(id) FROM (
            SELECT min(id) AS id FROM ({newest}) n GROUP BY run_id HAVING count(*) >= %(each)s
        ) ends""",  # noqa: S608 made of constants
        params,
    )
    (found,) = cursor.fetchone()
    return None if found is None else int(found)


def _episode(
    runs: Mapping[int, SampledRun],
    run_id: int,
    slot: int,
    place: int,
    incarnation: str,
    worker: int,
    environment: str,
    total: float,
    length: int | None,
    policy_step: int | None,
    at: datetime,
) -> SampleRow:
    name = slot_name(worker=worker, slot=slot, incarnation=incarnation)
    return SampleRow(
        kind="episode",
        id=episode_id(name, place),
        run=runs[run_id].address,
        run_uid=runs[run_id].uid,
        project=runs[run_id].project,
        environment=environment,
        score=finite_or_none(total),
        length=length,
        worker=f"w{worker}",
        policy_step=policy_step,
        at=at,
    )


_NEWEST_VALUES: Final = {
    SampleKind.GROUP: """SELECT g.env_id, g.producer, d.lesson, d.worker, d.facts, g.run_id
        FROM buffer_trajectorygroup g LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
        WHERE g.run_id = r.run AND g.segment IS NOT NULL ORDER BY g.id DESC LIMIT %(each)s""",
    SampleKind.FRAGMENT: """SELECT environment, worker FROM buffer_fragmentchunk
        WHERE run_id = r.run AND segment IS NOT NULL ORDER BY id DESC LIMIT %(each)s""",
    SampleKind.EPISODE: """SELECT environment, 'w' || worker AS worker
        FROM rollouts_episodewindow WHERE run_id = r.run ORDER BY id DESC LIMIT %(each)s""",
}
_NEWEST_TAGS: Final = """SELECT tags FROM buffer_groupmark
    WHERE run_id = r.run ORDER BY group_id DESC LIMIT %(each)s"""
_VALUE: Final = {
    (SampleKind.GROUP, "env"): """COALESCE(NULLIF(n.lesson, ''), (SELECT e.wandb_name
        FROM runs_environment e WHERE e.run_id = n.run_id AND e.env_id = n.env_id))""",
    (SampleKind.GROUP, "worker"): "COALESCE(NULLIF(n.worker, ''), n.producer)",
    (SampleKind.GROUP, "tag"): "unnest(n.tags)",
}
_VALUES_OF_FACT: Final = """jsonb_array_elements_text(CASE jsonb_typeof(n.facts -> %(fact)s)
    WHEN 'array' THEN n.facts -> %(fact)s ELSE jsonb_build_array(n.facts -> %(fact)s) END)"""
VALUES_OF: Final = ("env", "worker", "tag", "run", "project")
"""Qualifiers with completions from the samples."""


def values(covered: SampledRuns, *, kind: SampleKind, of: str, part: str) -> list[ValueRow]:
    """Return values of a qualifier that contain `part`, the most used of new samples first."""
    if of in ("run", "project"):
        names = [run.address if of == "run" else run.project for run in covered.runs.values()]
        return _named([name for name in names if name], part)
    expression = _VALUE.get((kind, of), "n.environment" if of == "env" else "n.worker")
    if is_fact(of):
        expression = _VALUES_OF_FACT
    newest = _NEWEST_TAGS if of == "tag" else _NEWEST_VALUES[kind]
    params = {
        "runs": list(covered.runs),
        "each": rows_of_each(len(covered.runs), limit=1, rows=VALUES_EXAMINED),
        "part": part.lower(),
        "fact": of,
        "most": VALUES_AT_MOST,
    }
    with bounded_cursor() as cursor:
        cursor.execute(
            f"""SELECT value, count(*) FROM (
                SELECT {expression} AS value
                FROM ({EACH_RUN.format(rows=newest)}) n) v
            WHERE value <> '' AND strpos(lower(value), %(part)s) > 0
            GROUP BY value ORDER BY count(*) DESC, value LIMIT %(most)s""",  # noqa: S608
            params,
        )
        return [ValueRow(value=value, count=count) for value, count in cursor.fetchall()]


def fact_keys(covered: SampledRuns) -> list[ValueRow]:
    """Return the keys of facts of the newest groups with their numbers of groups."""
    newest = EACH_RUN.format(rows=_NEWEST_VALUES[SampleKind.GROUP])
    params = {
        "runs": list(covered.runs),
        "each": rows_of_each(len(covered.runs), limit=1, rows=KEYS_EXAMINED),
        "most": KEYS_AT_MOST,
    }
    with bounded_cursor() as cursor:
        cursor.execute(
            f"""SELECT key, count(*) FROM ({newest}) n, jsonb_object_keys(n.facts) key
            GROUP BY key ORDER BY count(*) DESC, key LIMIT %(most)s""",  # noqa: S608 made of constants
            params,
        )
        return [ValueRow(value=value, count=count) for value, count in cursor.fetchall()]


def _named(names: Sequence[str], part: str) -> list[ValueRow]:
    found = [name for name in names if part.lower() in name.lower()]
    distinct = list(dict.fromkeys(found))
    return [ValueRow(value=name, count=found.count(name)) for name in distinct[:VALUES_AT_MOST]]
