"""Queries for reported episodes, for their distribution, and for one of them in fragments."""

from datetime import datetime, timedelta
from typing import Final, Literal

from django.db import connection

from buffer.inspect.queries.fragment_lists import EpisodeSearch
from buffer.inspect.queries.group_statistics import id_ranges, sampled_groups
from buffer.inspect.rules.fragment_views import curves_of, joined
from rollouts.control.models import EpisodeWindow
from rollouts.control.rules import ROWS_AT_MOST
from rollouts.episodes import rules
from rollouts.episodes.rules import Sample
from rollouts.episodes.schemas import (
    EpisodeDetail,
    EpisodeRow,
    Episodes,
    EpisodeSpread,
    EpisodeSummary,
    PartOfEpisode,
)
from runs.lifecycle.models import Run
from web.rules.errors import NotFound
from web.rules.pages import PageRequest

WINDOWS_AT_MOST: Final = 20_000
WINDOWS_EACH: Final = 8
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


def episodes(run_id: int, after: int | None, limit: int) -> list[EpisodeRow]:
    """Return windows of ended episodes, oldest first.

    The first ones after row `after`, or the newest ones if `after` is None.
    """
    found = EpisodeWindow.objects.filter(run_id=run_id)
    limit = min(limit, ROWS_AT_MOST)
    if after is None:
        windows = list(found.order_by("-id")[:limit])[::-1]
    else:
        windows = list(found.filter(id__gt=after).order_by("id")[:limit])
    return [_row(window) for window in windows]


def episode_page(run_id: int, page: PageRequest[int], *, after_id: int | None) -> Episodes:
    """Return windows of ended episodes, newest first; with `after_id` only later ones."""
    found = EpisodeWindow.objects.filter(run_id=run_id)
    if after_id is not None:
        found = found.filter(id__gt=after_id)
    if page.after is not None:
        found = found.filter(id__lt=page.after)
    rows, cursor = page.cut(found.order_by("-id")[: page.limit + 1], lambda window: window.pk)
    return Episodes(results=[_row(window) for window in rows], next=cursor)


def episode_summary(
    run_id: int, *, seconds: int, now: datetime, at_most: int = WINDOWS_AT_MOST
) -> EpisodeSummary:
    """Return the episodes of the last seconds by environment and mode, and over environments.

    If there are more than `at_most` windows, only the newest count.
    """
    names = rules.Window.__match_args__
    since = now - timedelta(seconds=seconds)
    found = EpisodeWindow.objects.filter(run_id=run_id, at__gt=since).order_by("-id")
    rows = list(found.values_list("at", *names)[:at_most])
    tasks = rules.tasks(rules.Window(*row) for _, *row in rows)
    train = [task for task in tasks if task.mode == "train"]
    evaluated = [task for task in tasks if task.mode == "eval"]
    return EpisodeSummary(
        seconds=seconds,
        since=rows[-1][0] if len(rows) == at_most else None,
        tasks=tasks,
        train_weighted=rules.weighted(train),
        train_unweighted=rules.unweighted(train),
        eval_weighted=rules.weighted(evaluated),
        eval_unweighted=rules.unweighted(evaluated),
    )


def _row(window: EpisodeWindow) -> EpisodeRow:
    return EpisodeRow(**{name: getattr(window, name) for name in EpisodeRow.__struct_fields__})


def episode_detail(run_id: int, episode: str) -> EpisodeDetail:
    """Return an episode of a run with its parts in the order of its steps.

    Raises:
        InvalidEpisodeId: If `episode` is not the id of an episode.
        NotFound: If no stored fragment holds it.
        SearchTooSlow: If the database takes too long.
    """
    search = EpisodeSearch(run_id)
    found = search.fragments_of(episode)
    if not found:
        raise NotFound(
            f"no stored fragment holds the episode {episode}: evaluations are not stored, and"
            " retention removes old fragments"
        )
    first = found[0].row
    return EpisodeDetail(
        id=episode,
        slot=first.slot,
        environment=first.environment,
        worker=first.worker,
        steps=sum(held.part.steps for held in found),
        total_return=float(f"{sum(held.part.reward for held in found):.7g}"),
        begins=found[0].part.begins,
        outcome=found[-1].part.outcome,
        is_partial=search.is_cut,
        parts=[
            PartOfEpisode(
                fragment=row.id,
                number=row.number,
                first=part.first,
                steps=part.steps,
                total=row.steps,
                reward=part.reward,
                epoch=row.epoch,
                version_min=row.version_min,
                version_max=row.version_max,
                state=row.state,
                drop_reason=row.drop_reason,
                batch=row.batch,
                step=row.step,
                received_at=row.received_at,
            )
            for row, part, _ in found
        ],
        curves=curves_of([joined([held.series for held in found])]),
    )


def episode_spread(run: Run, *, of: Measure, task: str = "", mode: str = "") -> EpisodeSpread:
    """Return the distribution of returns or lengths over the life of a run, from a bounded sample.

    For runs of groups: the mean scores of groups, or the tokens of their longest sequence, which
    are also the filters of group lists.
    """
    samples: list[Sample] = []
    is_whole = True
    ids = EpisodeWindow.objects.filter(run_id=run.pk).order_by("id").values_list("id", flat=True)
    if run.takes_groups:
        groups, is_whole = sampled_groups(run.pk)
        for group in groups:
            value = group.score_mean if of == "return" else group.longest_tokens
            samples.append(Sample(group.task, "train", [float(value)]))
    elif (first := ids.first()) is not None and (last := ids.last()) is not None:
        bounds, is_whole = id_ranges(first, last, each=WINDOWS_EACH)
        with connection.cursor() as cursor:
            cursor.execute(_WINDOWS.format(kept=_KEPT[of]), bounds | {"run": run.pk})
            samples = [Sample(*row) for row in cursor.fetchall()]
    found = rules.spread_of(samples, task=task, mode=mode)
    return EpisodeSpread(
        unit="groups" if run.takes_groups else "episodes",
        of=of,
        least=found.least,
        most=found.most,
        counts=found.counts,
        tasks=found.tasks,
        counted=found.counted,
        is_sampled=not is_whole,
    )
