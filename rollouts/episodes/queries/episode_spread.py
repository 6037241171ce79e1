"""Queries for the distribution of episodes, and for outlying workers and episodes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.db import connection

from buffer.inspect.queries.group_spread import sampled_groups
from buffer.inspect.rules.id_ranges import id_ranges
from rollouts.control.models.fleets import EpisodeWindow
from rollouts.episodes.rules import episode_spread as rules
from rollouts.episodes.rules.episode_ids import episodes_with
from rollouts.episodes.rules.episode_spread import Sample
from rollouts.episodes.rules.episode_workers import WorkerEpisodes, deviations
from rollouts.episodes.schemas import (
    EpisodeFind,
    EpisodeOutliers,
    EpisodesOfWorker,
    EpisodeSpread,
    SpreadColumn,
    TaskSpread,
    WorkerDeviation,
)
from runs.lifecycle.models.runs import Run

WINDOWS_EACH: Final = 8
ROWS_EXAMINED: Final = 20_000
"""Number of newest reports searched for workers and outliers."""
FOUND: Final = 20
EXTREMES: Final = 3
Measure = Literal["return", "length"]
_KEPT: Final[dict[Measure, str]] = {"return": "returns", "length": "lengths"}
_WINDOWS: Final = """
    SELECT w.at, w.environment, w.mode, w.{kept}
    FROM generate_series(%(first)s::bigint, %(last)s::bigint, %(step)s::bigint) AS s(low)
    CROSS JOIN LATERAL (
        SELECT at, environment, mode, {kept} FROM rollouts_episodewindow
        WHERE run_id = %(run)s AND id >= s.low AND id < s.low + %(step)s::bigint
        ORDER BY id LIMIT %(each)s
    ) w"""
_NEWEST: Final = """
    WITH newest AS (
        SELECT id, at, worker, environment, mode, policy_step, count, aborted, return_mean,
            length_mean, return_min, return_max, length_max
        FROM rollouts_episodewindow
        WHERE run_id = %(run)s AND at > %(since)s ORDER BY id DESC LIMIT %(rows)s
    )"""
# Means cover episodes that were not aborted, unless all were.
_WORKERS: Final = f"""{_NEWEST}
    SELECT worker, SUM(count)::bigint,
        SUM(return_mean * described) / SUM(described),
        SUM(length_mean * described) / SUM(described),
        SUM(aborted)::float8 / SUM(count)
    FROM (SELECT *, COALESCE(NULLIF(count - aborted, 0), count) AS described FROM newest) n
    WHERE mode = 'train' GROUP BY worker ORDER BY worker"""  # noqa: S608
_FIND: Final = "id, at, worker, environment, mode, policy_step"
_EXTREMES: Final = _NEWEST + " UNION ALL ".join(
    f"""(SELECT '{kind}', {column}, {_FIND} FROM newest
        ORDER BY {column} {order}, id DESC LIMIT %(most)s)"""  # noqa: S608 constants only
    for kind, column, order in (
        ("highest", "return_max", "DESC"),
        ("lowest", "return_min", "ASC"),
        ("longest", "length_max", "DESC"),
    )
)
# Minimum and maximum are in the row; the individual values are read only if these match.
_MAY_MATCH: Final[dict[Measure, str]] = {
    "return": "return_max >= %(least)s AND return_min <= %(most)s",
    "length": "length_max >= %(least)s",
}
_MATCHES: Final = """
    SELECT (SELECT v FROM unnest({kept}) v WHERE v >= %(least)s AND v <= %(most)s LIMIT 1), {find}
    FROM (
        SELECT * FROM rollouts_episodewindow WHERE run_id = %(run)s ORDER BY id DESC LIMIT %(rows)s
    ) newest
    WHERE {may_match}
    AND EXISTS (SELECT 1 FROM unnest({kept}) v WHERE v >= %(least)s AND v <= %(most)s)
    ORDER BY id DESC LIMIT %(found)s"""


def episode_spread(run: Run, *, of: Measure, task: str = "", mode: str = "") -> EpisodeSpread:
    """Return the distribution of returns or lengths over the life of a run, from a bounded sample.

    For runs of groups: the mean scores of groups, or the tokens of their longest sequence, which
    are also the filters of group lists.
    """
    samples, is_whole = _groups(run, of) if run.takes_groups else _windows(run.pk, of)
    found = rules.spread_of(samples, task=task, mode=mode)
    return EpisodeSpread(
        unit="groups" if run.takes_groups else "episodes",
        of=of,
        least=found.least,
        most=found.most,
        columns=[SpreadColumn(at=one.at, counts=one.counts) for one in found.columns],
        tasks=[TaskSpread(**{n: getattr(one, n) for n in one.__slots__}) for one in found.tasks],
        counted=found.counted,
        is_sampled=not is_whole,
    )


def _groups(run: Run, of: Measure) -> tuple[list[Sample], bool]:
    groups, is_whole = sampled_groups(run.pk)
    return [
        Sample(one.received_at, one.task, "train", [_number(one, of)]) for one in groups
    ], is_whole


def _number(group: Any, of: Measure) -> float:
    return float(group.score_mean if of == "return" else group.longest_tokens)


def _windows(run_id: int, of: Measure) -> tuple[list[Sample], bool]:
    mine = EpisodeWindow.objects.filter(run_id=run_id)
    first = mine.order_by("id").values_list("id", flat=True).first()
    last = mine.order_by("-id").values_list("id", flat=True).first()
    if first is None or last is None:
        return [], True
    bounds, is_whole = id_ranges(first, last, each=WINDOWS_EACH)
    with connection.cursor() as cursor:
        cursor.execute(_WINDOWS.format(kept=_KEPT[of]), bounds | {"run": run_id})
        return [Sample(*row) for row in cursor.fetchall()], is_whole


def episode_outliers(run_id: int, *, seconds: int, now: datetime) -> EpisodeOutliers:
    """Return recent statistics by worker, outlying workers, and extreme episodes."""
    parameters: dict[str, Any] = {
        "run": run_id,
        "since": now - timedelta(seconds=seconds),
        "rows": ROWS_EXAMINED,
        "most": EXTREMES,
    }
    with connection.cursor() as cursor:
        cursor.execute(_WORKERS, parameters)
        workers = [
            WorkerEpisodes(
                worker=worker,
                episodes=int(episodes),
                return_mean=float(mean),
                length_mean=float(length),
                aborted_share=float(aborted),
            )
            for worker, episodes, mean, length, aborted in cursor.fetchall()
        ]
        cursor.execute(_EXTREMES, parameters)
        extremes = _finds(cursor.fetchall())
    far = deviations(workers)
    return EpisodeOutliers(
        seconds=seconds,
        workers=[
            EpisodesOfWorker(
                **{name: getattr(one, name) for name in one.__slots__},
                deviations=[
                    WorkerDeviation(measure=each.measure, median=each.median, score=each.score)
                    for each in far.get(one.worker, [])
                ],
            )
            for one in workers
        ],
        extremes=extremes,
    )


def episodes_between(run_id: int, *, of: Measure, least: float, most: float) -> list[EpisodeFind]:
    """Return the newest reports with an episode in a range, among those searched."""
    parameters: dict[str, Any] = {
        "run": run_id,
        "least": least,
        "most": most,
        "rows": ROWS_EXAMINED,
        "found": FOUND,
    }
    with connection.cursor() as cursor:
        query = _MATCHES.format(kept=_KEPT[of], find=_FIND, may_match=_MAY_MATCH[of])
        cursor.execute(query, parameters)
        return _finds([("match", *row) for row in cursor.fetchall()], of=of)


def _finds(rows: Sequence[Sequence[Any]], *, of: Measure = "return") -> list[EpisodeFind]:
    """Return the found episodes; rows are kind, value and the columns of :data:`_FIND`."""
    windows = EpisodeWindow.objects.in_bulk({report for _, _, report, *_ in rows})
    found = []
    for kind, value, *row in rows:
        measure: Measure = "length" if kind == "longest" else of
        window = windows.get(row[0])
        episodes = [] if window is None else episodes_with(window, of=measure, value=value)
        found.append(_find(kind, value, row, episode=episodes[0] if episodes else ""))
    return found


def _find(kind: Any, value: float, row: Sequence[Any], *, episode: str) -> EpisodeFind:
    report, at, worker, environment, mode, policy_step = row
    return EpisodeFind(
        kind=kind,
        value=float(value),
        report=report,
        at=at,
        worker=worker,
        environment=environment,
        mode=mode,
        policy_step=policy_step,
        episode=episode,
    )
