"""List of all environments that runs use or may use, with recent statistics.

The cost of a page is bounded: it reads the newest :data:`RUNS_AT_MOST` runs, and for statistics the
newest data of the newest few runs of each environment on it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings
from django.db import connection

from rollouts.environments.models import DeniedEnvironment
from rollouts.environments.rules import Figures, Sample, figures_of
from rollouts.environments.schemas import (
    EnvironmentDenial,
    EnvironmentKind,
    EnvironmentRun,
    KnownEnvironment,
    KnownEnvironmentDetail,
    KnownEnvironments,
)
from rollouts.fleet.datasets.rows import listed
from rollouts.tasks.rules.dataset_config import KIND as DATASET
from rollouts.tasks.rules.task import KIND as TASK
from rollouts.tasks.rules.task import TASKS
from runs.access.queries import shown_name, token_names
from runs.config.rules import extensions
from runs.config.rules.run_config import PRESETS, to_builtins
from runs.config.rules.sections import specs_in
from runs.lifecycle.rules import ACTIVE
from web.rules.errors import NotFound
from web.rules.pages import PageRequest

KINDS: Final = ("outside", "steps", "tokens")
RUNS_AT_MOST: Final = 10_000
RUNS_EACH: Final = 3
GROUPS_EACH: Final = 300
WINDOWS_EACH: Final = 200
RUNS_SHOWN: Final = 50

_LOOKED: Final = """
    looked AS MATERIALIZED (
        SELECT r.id, r.name, r.uid, r.kind, r.status, r.status_changed_at,
            r.created_at, r.config, f.heard_at
        FROM (
            SELECT * FROM runs_run WHERE archived_at IS NULL
            ORDER BY created_at DESC LIMIT %(most)s
        ) r LEFT JOIN rollouts_fleet f ON f.run_id = r.id
    ),
    named AS (
        SELECT 'steps' AS kind, config #>> '{environment,spec}' AS name, id, heard_at AS seen_at,
            NULL::int AS env_id, NULL::text AS lesson
        FROM looked WHERE kind = 'fleet'
        UNION ALL
        SELECT 'tokens', l.value ->> 'spec', r.id, r.heard_at, NULL, l.key
        FROM looked r CROSS JOIN LATERAL jsonb_each(r.config #> '{language,lessons}') l
        WHERE r.kind = 'language'
        UNION ALL
        SELECT 'outside', e.desired_name, r.id, e.last_seen_at, e.env_id, NULL
        FROM looked r JOIN runs_environment e ON e.run_id = r.id WHERE r.kind = 'outside'
    )"""
_PAGE: Final = f"""
    WITH {_LOOKED},
    used AS (
        SELECT n.kind, n.name, r.id, r.name AS run, r.status,
            max(n.seen_at) AS seen_at, array_agg(n.env_id) AS env_ids,
            array_agg(n.lesson) AS lessons,
            row_number() OVER (PARTITION BY n.kind, n.name ORDER BY r.created_at DESC, r.id DESC)
                AS place
        FROM named n JOIN looked r ON r.id = n.id
        WHERE n.name <> ''
        GROUP BY n.kind, n.name, r.id, r.name, r.status, r.created_at
    ),
    counted AS (
        SELECT kind, name, count(*) AS runs,
            count(*) FILTER (WHERE status = ANY(%(active)s)) AS active_runs,
            max(seen_at) AS last_seen_at, max(run) FILTER (WHERE place = 1) AS newest_run,
            jsonb_agg(jsonb_build_array(id, env_ids, lessons)) FILTER (WHERE place <= %(each)s)
                AS members
        FROM used GROUP BY kind, name
        UNION ALL
        SELECT k.kind, k.name, 0, 0, NULL, NULL, '[]'
        FROM unnest(%(known_kinds)s::text[], %(known_names)s::text[]) AS k(kind, name)
        WHERE NOT EXISTS (
            SELECT FROM used u WHERE u.name = k.name AND u.kind <> 'outside')
    )
    SELECT kind, name, runs, active_runs, last_seen_at, newest_run, members
    FROM counted
    WHERE (%(part)s = '' OR strpos(lower(name), lower(%(part)s)) > 0)
        AND (%(kind)s = '' OR kind = %(kind)s) AND (%(only)s = '' OR name = %(only)s)
        AND (name COLLATE "C", kind COLLATE "C") > (%(name)s COLLATE "C", %(behind)s COLLATE "C")
    ORDER BY name COLLATE "C", kind COLLATE "C" LIMIT %(limit)s"""  # noqa: S608 texts of our own
_RUNS: Final = f"""
    WITH {_LOOKED}
    SELECT r.name, r.uid, r.status, r.status_changed_at, r.created_at, max(n.seen_at),
        array_remove(array_agg(n.lesson ORDER BY n.lesson), NULL), count(n.env_id),
        CASE WHEN %(kind)s = 'outside' THEN NULL ELSE r.config END
    FROM named n JOIN looked r ON r.id = n.id WHERE n.kind = %(kind)s AND n.name = %(only)s
    GROUP BY r.id, r.name, r.uid, r.status, r.status_changed_at, r.created_at, r.config
    ORDER BY r.created_at DESC, r.id DESC LIMIT %(limit)s"""  # noqa: S608
_COUNT: Final = """
    SELECT count(*) FROM (SELECT FROM runs_run WHERE archived_at IS NULL LIMIT %s) AS counted"""
_GROUPS: Final = """
    SELECT r.id, s.env_id, s.lesson, count(*),
        count(*) FILTER (WHERE s.received_at > %(since)s), min(s.received_at),
        sum(s.score_mean::numeric) FILTER (WHERE abs(s.score_mean) < 'Infinity'),
        count(*) FILTER (WHERE abs(s.score_mean) < 'Infinity'),
        count(*), count(*) FILTER (WHERE s.score_std = 0)
    FROM unnest(%(runs)s::bigint[]) AS r(id) CROSS JOIN LATERAL (
        SELECT g.*, d.lesson FROM (
            SELECT id, env_id, received_at, score_mean, score_std
            FROM buffer_trajectorygroup WHERE run_id = r.id AND segment IS NOT NULL
            ORDER BY run_id, id DESC LIMIT %(each)s
        ) g LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
    ) s GROUP BY r.id, s.env_id, s.lesson"""
_EPISODES: Final = """
    SELECT r.id, NULL, NULL, count(*),
        sum(e.count) FILTER (WHERE e.at > %(since)s AND e.mode = 'train'), min(e.at),
        sum(e.return_sum::numeric) FILTER (WHERE e.is_counted),
        sum(e.count) FILTER (WHERE e.is_counted), 0, 0
    FROM unnest(%(runs)s::bigint[]) AS r(id) CROSS JOIN LATERAL (
        SELECT at, mode, count, return_sum,
            mode = 'train' AND abs(return_sum) < 'Infinity' AS is_counted
        FROM rollouts_episodewindow
        WHERE run_id = r.id ORDER BY id DESC LIMIT %(each)s
    ) e GROUP BY r.id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFilter:
    """Filter of a page of environments."""

    part: str = ""
    """Part of the name, case-insensitive; empty for all."""
    kind: str = ""
    """One of :data:`KINDS`; empty for all."""
    only: str = ""
    """The exact name; empty for all."""


class _Row(NamedTuple):
    kind: EnvironmentKind
    name: str
    runs: int
    active_runs: int
    last_seen_at: datetime | None
    newest_run: str | None
    members: list[tuple[int, list[int | None], list[str | None]]]


def known_environments(
    filters: EnvironmentFilter, page: PageRequest[tuple[str, str]], *, now: datetime
) -> KnownEnvironments:
    """Return one page of environments, by name and kind, with rates of the interval up to `now`."""
    found, examined = _page(filters, after=page.after, limit=page.limit + 1)
    rows, cursor = page.cut(found, lambda row: (row.name, row.kind))
    figures = _figures(rows, now=now)
    denials = _denials([row.name for row in rows])
    return KnownEnvironments(
        results=[_known(row, each, denials) for row, each in zip(rows, figures, strict=True)],
        next=cursor,
        examined_runs=min(examined, RUNS_AT_MOST),
        has_older_runs=examined > RUNS_AT_MOST,
        runs_each=RUNS_EACH,
        groups_each=GROUPS_EACH,
        windows_each=WINDOWS_EACH,
    )


def environment_detail(*, kind: str, name: str, now: datetime) -> KnownEnvironmentDetail:
    """Return an environment, the newest runs that use it, and its launch configuration.

    Raises:
        NotFound: If no run uses it, and none may.
    """
    rows, _ = _page(EnvironmentFilter(kind=kind, only=name), after=None, limit=1)
    if not rows:
        raise NotFound(f"environment {name!r} of kind {kind} does not exist")
    with connection.cursor() as cursor:
        cursor.execute(
            _RUNS, {"most": RUNS_AT_MOST, "kind": kind, "only": name, "limit": RUNS_SHOWN}
        )
        found = cursor.fetchall()
    config = _decoded(found[0][-1]) or {} if found else {}
    return KnownEnvironmentDetail(
        environment=_known(rows[0], _figures(rows, now=now)[0], _denials([name])),
        runs=[
            EnvironmentRun(**dict(zip(EnvironmentRun.__struct_fields__, row[:-1], strict=True)))
            for row in found
        ],
        config=least_config(kind, name, config),
    )


def least_config(kind: str, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a minimal run configuration for an environment, with the arguments of `config`."""
    if kind == "steps":
        given = config.get("environment", {}).get("kwargs", {})
        return {"environment": {"spec": name, **({"kwargs": given} if given else {})}}
    if kind == "tokens":
        lessons = config.get("language", {}).get("lessons", {})
        mine = {key: lesson for key, lesson in lessons.items() if lesson.get("spec") == name}
        lesson = next(iter(mine), name.rpartition(":")[2].split("/")[-1])
        kwargs = mine[lesson].get("kwargs", {}) if mine else {}
        one = {"spec": name, **({"kwargs": kwargs} if kwargs else {})}
        return {"language": {"lessons": {lesson: one}}}
    return {}


def _page(
    filters: EnvironmentFilter, *, after: tuple[str, str] | None, limit: int
) -> tuple[list[_Row], int]:
    """Return the rows after a position, and the number of runs, counted up to 10,001."""
    name, kind = after or ("", "")
    known = _offered()
    asks: dict[str, Any] = {
        "most": RUNS_AT_MOST,
        "active": [str(status) for status in ACTIVE],
        "each": RUNS_EACH,
        "known_kinds": [known_kind for known_kind, _ in known],
        "known_names": [known_name for _, known_name in known],
        "part": filters.part,
        "kind": filters.kind,
        "only": filters.only,
        "name": name,
        "behind": kind,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAGE, asks)
        rows = [_Row._make((*row[:-1], _decoded(row[-1]) or [])) for row in cursor.fetchall()]
        cursor.execute(_COUNT, [RUNS_AT_MOST + 1])
        (runs,) = cursor.fetchone()
    return rows, runs


def _decoded(raw: Any) -> Any:
    return msgspec.json.decode(raw) if isinstance(raw, str) else raw


def _offered() -> list[tuple[str, str]]:
    """Return kind and name of the environments that runs may name regardless of past use."""
    steps = [f"{kind}:{name}" for kind, names in extensions.KNOWN.items() for name in names]
    return [
        *(("steps", name) for name in {*steps, *settings.ROLLDECK_ENVIRONMENTS}),
        *(("tokens", TASK + name) for name in TASKS),
        *(("tokens", DATASET + name) for name in listed(settings.ROLLDECK_DATASETS)),
    ]


def may_be_named(spec: str) -> bool:
    """Return whether runs of an environment are possible on this server, denied or not."""
    return spec.startswith(DATASET) or any(name == spec for _, name in _offered())


def _denials(names: Sequence[str]) -> dict[str, EnvironmentDenial]:
    rows = list(DeniedEnvironment.objects.filter(spec__in=names))
    people = token_names(row.denied_by for row in rows)
    return {
        row.spec: EnvironmentDenial(
            reason=row.reason, denied_at=row.denied_at, denied_by=shown_name(row.denied_by, people)
        )
        for row in rows
    }


def _figures(rows: Sequence[_Row], *, now: datetime) -> list[Figures]:
    """Return the statistics of each environment on the page with one query for all runs."""
    stepped = {member[0] for row in rows if row.kind == "steps" for member in row.members}
    pushed = {member[0] for row in rows if row.kind != "steps" for member in row.members}
    samples = [
        *_samples(_GROUPS, pushed, each=GROUPS_EACH, now=now),
        *_samples(_EPISODES, stepped, each=WINDOWS_EACH, now=now),
    ]
    return [figures_of(samples, members=row.members, now=now) for row in rows]


def _samples(query: str, runs: Iterable[int], *, each: int, now: datetime) -> list[Sample]:
    asks: dict[str, Any] = {"runs": sorted(runs), "each": each, "since": now - Figures.WINDOW}
    if not asks["runs"]:
        return []
    with connection.cursor() as cursor:
        cursor.execute(query, asks)
        found = cursor.fetchall()
    rows_read: Counter[int] = Counter()
    for run_id, _, _, rows, *_ in found:
        rows_read[run_id] += rows
    return [
        Sample(
            run_id=run_id,
            env_id=env_id,
            lesson=lesson,
            recent=int(recent or 0),
            oldest_at=oldest_at,
            reward_sum=Fraction(sums[0] or 0),
            rewarded=int(sums[1] or 0),
            groups=sums[2],
            equal=sums[3],
            is_cut=rows_read[run_id] >= each,
        )
        for run_id, env_id, lesson, _, recent, oldest_at, *sums in found
    ]


def _known(row: _Row, found: Figures, denials: Mapping[str, EnvironmentDenial]) -> KnownEnvironment:
    offered = {name for _, name in _offered()}
    return KnownEnvironment(
        name=row.name,
        kind=row.kind,
        runs=row.runs,
        active_runs=row.active_runs,
        last_seen_at=row.last_seen_at,
        newest_run=row.newest_run,
        registered=row.kind != "outside" and (row.name in offered or row.name.startswith(DATASET)),
        presets=[preset for preset, specs in _presets() if row.name in specs],
        per_hour=found.per_hour,
        reward_mean=found.reward_mean,
        zero_variance_share=found.zero_variance_share,
        examined=found.examined,
        denied=None if row.kind == "outside" else denials.get(row.name),
    )


@cache
def _presets() -> list[tuple[str, list[str]]]:
    """Return the environments of each preset."""
    return [(name, specs_in(to_builtins(config))) for name, (_, config) in PRESETS.items()]
