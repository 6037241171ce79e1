"""Aggregation of the episodes that ended in a time window, by environment and mode.

Returns and lengths describe episodes that were not aborted. Aborted episodes are counted, but their
incomplete returns would look like bad ones. If every episode of a window was aborted, the window
describes those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from rolldeck.wire import EpisodeWindow

Mode = Literal["train", "eval"]
EPISODES_KEPT: Final = 100
"""Episodes per window whose returns and lengths are kept individually."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A finished episode."""

    environment: str
    total_return: float
    """Sum of the rewards."""
    discounted_return: float
    length: int
    """Number of env steps."""
    outcome: Literal["terminated", "truncated", "aborted"]
    mode: Mode = "train"
    policy_step: int = -2
    """Step of the version that acted last."""
    slot: int | None = None
    """Env slot of the episode; None if its fragments do not name the episode."""
    number: int = 0
    """Number of the episode in its slot, from 1."""


class EpisodeStatistics:
    """Collects the episodes of one worker until the window is taken."""

    def __init__(self, *, worker: int, now: float, incarnation: str = "") -> None:
        """Start the first window.

        Args:
            worker: Index of the worker in its fleet.
            now: Seconds of a monotonic clock.
            incarnation: Incarnation of the worker.
        """
        self._worker = worker
        self._incarnation = incarnation
        self._since = now
        self._episodes: dict[tuple[str, Mode], list[Episode]] = {}

    def add(self, episode: Episode) -> None:
        """Add a finished episode."""
        key = (episode.environment, episode.mode)
        self._episodes.setdefault(key, []).append(episode)

    def pop(self, now: float) -> list[EpisodeWindow]:
        """Return a row for each environment and mode with episodes, and start a new window."""
        seconds = max(0.0, now - self._since)
        ended, self._episodes, self._since = self._episodes, {}, now
        return [_window(rows, self._worker, self._incarnation, seconds) for rows in ended.values()]


def _named(complete: Sequence[Episode]) -> Sequence[Episode]:
    """Return the episodes that a window identifies: the last ones, lowest, highest, longest."""
    if not complete or any(episode.slot is None for episode in complete):
        return []
    lowest = min(complete, key=lambda episode: episode.total_return)
    highest = max(complete, key=lambda episode: episode.total_return)
    longest = max(complete, key=lambda episode: episode.length)
    return [*complete[-EPISODES_KEPT:], lowest, highest, longest]


def _window(
    episodes: Sequence[Episode], worker: int, incarnation: str, seconds: float
) -> EpisodeWindow:
    complete = [episode for episode in episodes if episode.outcome != "aborted"]
    described = complete or list(episodes)
    returns = np.array([episode.total_return for episode in described])
    lengths = np.array([episode.length for episode in described])
    p10, p50, p90 = np.percentile(returns, [10, 50, 90])
    outcomes = [episode.outcome for episode in episodes]
    named = _named(complete)
    return EpisodeWindow(
        environment=episodes[0].environment,
        mode=episodes[0].mode,
        worker=worker,
        seconds=seconds,
        count=len(episodes),
        return_sum=float(returns.sum()),
        return_mean=float(returns.mean()),
        return_min=float(returns.min()),
        return_max=float(returns.max()),
        return_p10=float(p10),
        return_p50=float(p50),
        return_p90=float(p90),
        discounted_return_mean=float(np.mean([e.discounted_return for e in described])),
        length_mean=float(lengths.mean()),
        length_max=int(lengths.max()),
        terminated=outcomes.count("terminated"),
        truncated=outcomes.count("truncated"),
        aborted=outcomes.count("aborted"),
        returns=[episode.total_return for episode in complete[-EPISODES_KEPT:]],
        lengths=[episode.length for episode in complete[-EPISODES_KEPT:]],
        incarnation=incarnation,
        slots=[episode.slot for episode in named if episode.slot is not None],
        numbers=[episode.number for episode in named],
        policy_step=episodes[-1].policy_step,
    )
