"""Lookup of the stored fragments of a reported episode."""

from datetime import timedelta
from typing import Final, Literal

import msgspec

from buffer.inspect.queries.episode_search import BYTES_OF_EPISODE_AT_MOST, EpisodeSearch
from buffer.inspect.rules.episode_search import StoredPart
from rollouts.control.models.fleets import EpisodeWindow
from rollouts.episodes.rules.episode_ids import episodes_with
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
        return _answer([], candidates=0)
    if window.slots:
        return _identified(run_id, episodes_with(window, of=of, value=value))
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
    return _answer(found[0].parts if found else [], candidates=len(found))


def _identified(run_id: int, episodes: list[str]) -> EpisodeFragments:
    """Return the fragments of the first of these episodes."""
    search = EpisodeSearch(run_id, bytes_at_most=BYTES_OF_EPISODE_AT_MOST)
    parts = search.parts_of(episodes[0]) if episodes else []
    return _answer(parts, candidates=len(episodes))


def _answer(parts: list[StoredPart], *, candidates: int) -> EpisodeFragments:
    return EpisodeFragments(
        results=[EpisodeLocation(**msgspec.structs.asdict(part)) for part in parts],
        next=None,
        candidates=candidates,
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
