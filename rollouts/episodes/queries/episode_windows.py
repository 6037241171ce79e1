"""Queries for reported episode windows, individually and aggregated."""

from datetime import datetime, timedelta
from typing import Any, Final

from rollouts.control.models.fleets import EpisodeWindow
from rollouts.control.rules.pages import ROWS_AT_MOST
from rollouts.control.schemas.fleets import (
    EpisodeMeans,
    EpisodeRow,
    Episodes,
    EpisodeSummary,
    TaskEpisodes,
)
from rollouts.episodes.rules import episode_summary as episode_rules
from web.rules.pages import PageRequest

WINDOWS_AT_MOST: Final = 20_000


def episodes(run_id: int, *, after: int | None, limit: int) -> list[EpisodeRow]:
    """Return windows of ended episodes, oldest first.

    The first ones after row `after`, or the newest ones if `after` is None.
    """
    found = EpisodeWindow.objects.filter(run_id=run_id)
    return [_row(EpisodeRow, window) for window in _page(found, after=after, limit=limit)]


def episode_page(run_id: int, page: PageRequest[int], *, after_id: int | None) -> Episodes:
    """Return windows of ended episodes, newest first; with `after_id` only later ones."""
    found = EpisodeWindow.objects.filter(run_id=run_id)
    if after_id is not None:
        found = found.filter(id__gt=after_id)
    if page.after is not None:
        found = found.filter(id__lt=page.after)
    rows, cursor = page.cut(found.order_by("-id")[: page.limit + 1], lambda window: window.pk)
    return Episodes(results=[_row(EpisodeRow, window) for window in rows], next=cursor)


def episode_summary(
    run_id: int, *, seconds: int, now: datetime, at_most: int = WINDOWS_AT_MOST
) -> EpisodeSummary:
    """Return the episodes of the last seconds by environment and mode, and over environments.

    If there are more than `at_most` windows, only the newest count.
    """
    names = episode_rules.Window.__match_args__
    since = now - timedelta(seconds=seconds)
    found = EpisodeWindow.objects.filter(run_id=run_id, at__gt=since).order_by("-id")
    rows = list(found.values_list("at", *names)[:at_most])
    tasks = episode_rules.tasks(episode_rules.Window(*row) for _, *row in rows)
    train = [task for task in tasks if task.mode == "train"]
    evaluated = [task for task in tasks if task.mode == "eval"]
    return EpisodeSummary(
        seconds=seconds,
        since=rows[-1][0] if len(rows) == at_most else None,
        tasks=[_task_episodes(task) for task in tasks],
        train_weighted=_means(episode_rules.weighted(train)),
        train_unweighted=_means(episode_rules.unweighted(train)),
        eval_weighted=_means(episode_rules.weighted(evaluated)),
        eval_unweighted=_means(episode_rules.unweighted(evaluated)),
    )


def _task_episodes(task: episode_rules.Task) -> TaskEpisodes:
    fields: dict[str, Any] = {name: getattr(task, name) for name in task.__match_args__}
    fields["means"] = EpisodeMeans(**task.means._asdict())
    for name in ("percentiles", "length_percentiles"):
        fields[name] = {str(cut): value for cut, value in fields[name].items()}
    return TaskEpisodes(**fields)


def _means(means: episode_rules.Means | None) -> EpisodeMeans | None:
    return None if means is None else EpisodeMeans(**means._asdict())


def episode_series(run_id: int, after: int | None, limit: int) -> list[EpisodeRow]:
    """Return windows of ended episodes in the format of the live pages."""
    return episodes(run_id, after=after, limit=limit)


def _page(found: Any, *, after: int | None, limit: int) -> list[Any]:
    limit = min(limit, ROWS_AT_MOST)
    if after is None:
        return list(found.order_by("-id")[:limit])[::-1]
    return list(found.filter(id__gt=after).order_by("id")[:limit])


def _row(shape: type[Any], row: Any) -> Any:
    return shape(**{field: getattr(row, field) for field in shape.__struct_fields__})
