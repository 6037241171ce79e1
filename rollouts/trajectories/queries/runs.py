"""Runs that a search for trajectories covers."""

from dataclasses import dataclass
from datetime import datetime

from rollouts.trajectories.rules import RUNS_AT_MOST, InvalidSearch, TrajectoryKind
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.queries import readable_run
from runs.search.queries import filtered
from runs.search.rules import InvalidFilter


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
