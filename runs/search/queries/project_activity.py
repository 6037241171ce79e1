"""Read the activity of projects from their runs."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from runs.lifecycle.models.runs import Run
from runs.search.queries.run_table import activity_of
from runs.search.schemas import ProjectActivity, ProjectRun

RUNS_EACH: Final = 50
"""Newest runs of each project whose returns and heartbeats are read."""
BEST_AT_MOST: Final = 5


def project_activity(names: Sequence[str]) -> dict[str, ProjectActivity]:
    """Return the activity of the projects with these names; unknown ones are omitted.

    Runs that are archived are not counted. Returns and times are those of the newest
    :data:`RUNS_EACH` runs of each project.
    """
    runs = Run.objects.current().filter(project__name__in=names)
    active = dict(runs.active().values_list("project__name").annotate(Count("pk")))
    newest = runs.select_related("project").annotate(
        place=Window(RowNumber(), partition_by="project", order_by=[F("created_at").desc(), "-pk"])
    )
    found = list(newest.filter(place__lte=RUNS_EACH).order_by("-created_at", "-pk"))
    beside = activity_of([run.pk for run in found])
    by_project: dict[str, list[Run]] = defaultdict(list)
    for run in found:
        if run.project is not None:
            by_project[run.project.name].append(run)
    return {
        name: _activity(rows, beside, active=active.get(name, 0))
        for name, rows in by_project.items()
    }


def _activity(
    rows: Sequence[Run], beside: dict[int, dict[str, Any]], *, active: int
) -> ProjectActivity:
    """Return the activity of one project; `rows` are its newest runs, newest first."""
    with_return = [
        ProjectRun(name=run.name, status=run.status, return_mean=mean)
        for run in rows
        if (mean := beside[run.pk].get("return_mean")) is not None
    ]
    best = sorted(with_return, key=lambda run: run.return_mean, reverse=True)
    return ProjectActivity(
        active_runs=active,
        last_activity_at=max(_last_activity(run, beside[run.pk]) for run in rows),
        newest_return=with_return[0] if with_return else None,
        best_runs=best[:BEST_AT_MOST],
    )


def _last_activity(run: Run, more: dict[str, Any]) -> datetime:
    """Return the time of the last status change, heartbeat or measurement of a run."""
    times = (run.status_changed_at, more.get("observed_at"), more.get("measured_at"))
    return max(time for time in times if time is not None)
