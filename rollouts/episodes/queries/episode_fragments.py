"""Lookup of the stored fragments of a reported episode."""

from datetime import timedelta
from typing import Final, Literal

import msgspec

from buffer.inspect.queries.episode_search import EpisodeSearch
from rollouts.control.models.fleets import EpisodeWindow
from rollouts.episodes.schemas import EpisodeFragments, EpisodeLocation
from web.rules.errors import NotFound

EARLIER: Final = timedelta(seconds=5)
"""Maximum time between a fragment's arrival and the report of an episode that ended in it."""


class ReportNotFound(NotFound):
    """The run has no such episode report."""


def fragments_of_episode(
    run_id: int, report: int, *, of: Literal["return", "length"], value: float
) -> EpisodeFragments:
    """Return the fragments of a report's episode with this return or length; none of evaluations.

    Raises:
        ReportNotFound: If the run has no such report.
        SearchTooSlow: If the database takes too long.
    """
    window = EpisodeWindow.objects.filter(run_id=run_id, pk=report).first()
    if window is None:
        raise ReportNotFound(f"the run has no episode report {report}")
    if window.mode == "eval":
        return EpisodeFragments(results=[], next=None, candidates=0)
    conditions = _condition(window, of, value)
    found = [
        episode
        for episode in EpisodeSearch(run_id).episodes(
            worker=window.worker,
            environment=window.environment,
            since=window.at - timedelta(seconds=window.seconds) - EARLIER,
        )
        if any(episode.has(total_return=each[0], length=each[1]) for each in conditions)
    ]
    return EpisodeFragments(
        results=[EpisodeLocation(**msgspec.structs.asdict(part)) for part in found[0].parts]
        if found
        else [],
        next=None,
        candidates=len(found),
    )


def _condition(
    window: EpisodeWindow, of: Literal["return", "length"], value: float
) -> list[tuple[float | None, int | None]]:
    """Return the return and length of each episode of the report with this value.

    A report lists its last 100 episodes; of earlier ones only the value is known.
    """
    listed: list[tuple[float | None, int | None]] = [
        (total, length)
        for total, length in zip(window.returns, window.lengths, strict=False)
        if (total if of == "return" else length) == value
    ]
    return listed or [(value, None) if of == "return" else (None, int(value))]
