"""Queries for the distribution of episodes, and for episodes by return or length."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from django.db import connection

from buffer.inspect.queries.group_spread import sampled_groups
from buffer.inspect.rules.id_ranges import id_ranges
from rollouts.control.models.fleets import EpisodeWindow
from rollouts.episodes.rules import episode_spread as rules
from rollouts.episodes.rules.episode_ids import episodes_with
from rollouts.episodes.rules.episode_spread import Sample
from rollouts.episodes.schemas import (
    EpisodeFind,
    EpisodeSpread,
    TaskSpread,
)
from runs.lifecycle.models.runs import Run

WINDOWS_EACH: Final = 8
ROWS_EXAMINED: Final = 20_000
"""Number of newest reports searched for episodes."""
FOUND: Final = 20
Measure = Literal["return", "length"]
_KEPT: Final[dict[Measure, str]] = {"return": "returns", "length": "lengths"}
_WINDOWS: Final = """
    SELECT w.environment, w.mode, w.{kept}
    FROM generate_series(%(first)s::bigint, %(last)s::bigint, %(step)s::bigint) AS s(low)
    CROSS JOIN LATERAL (
        SELECT environment, mode, {kept} FROM rollouts_episodewindow
        WHERE run_id = %(run)s AND id >= s.low AND id < s.low + %(step)s::bigint
        ORDER BY id LIMIT %(each)s
    ) w"""
_FIND: Final = "id, at, worker, environment, mode, policy_step"
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
        counts=found.counts,
        tasks=[TaskSpread(**{n: getattr(one, n) for n in one.__slots__}) for one in found.tasks],
        counted=found.counted,
        is_sampled=not is_whole,
    )


def _groups(run: Run, of: Measure) -> tuple[list[Sample], bool]:
    groups, is_whole = sampled_groups(run.pk)
    return [Sample(one.task, "train", [_number(one, of)]) for one in groups], is_whole


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
        return _finds(cursor.fetchall(), of=of)


def _finds(rows: Sequence[Sequence[Any]], *, of: Measure) -> list[EpisodeFind]:
    """Return the found episodes; rows are a value and the columns of :data:`_FIND`."""
    windows = EpisodeWindow.objects.in_bulk({report for _, report, *_ in rows})
    found = []
    for value, report, at, worker, environment, mode, policy_step in rows:
        window = windows.get(report)
        episodes = [] if window is None else episodes_with(window, of=of, value=value)
        found.append(
            EpisodeFind(
                value=float(value),
                report=report,
                at=at,
                worker=worker,
                environment=environment,
                mode=mode,
                policy_step=policy_step,
                episode=episodes[0] if episodes else "",
            )
        )
    return found
