"""Statistics of episodes: running totals of env slots, and aggregates by environment and mode.

Returns and lengths describe episodes that were not aborted. Aborted episodes are counted, but their
incomplete returns would look like bad ones. If every episode of a window was aborted, the window
describes those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import EpisodeWindow

Mode = Literal["train", "eval"]
EPISODES_KEPT: Final = 100
"""Episodes per window whose returns and lengths are kept individually."""
NO_STEP = -2


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
        """Start the first window; times are seconds of a monotonic clock."""
        self._worker = worker
        self._incarnation = incarnation
        self._since = now
        self._episodes: dict[tuple[str, Mode], list[Episode]] = {}

    def add(self, episode: Episode) -> None:
        key = (episode.environment, episode.mode)
        self._episodes.setdefault(key, []).append(episode)

    def pop(self, now: float) -> list[EpisodeWindow]:
        """Return a row for each environment and mode with episodes, and start a new window."""
        seconds = max(0.0, now - self._since)
        ended, self._episodes, self._since = self._episodes, {}, now
        return [_window(rows, self._worker, self._incarnation, seconds) for rows in ended.values()]


def _window(
    episodes: Sequence[Episode], worker: int, incarnation: str, seconds: float
) -> EpisodeWindow:
    complete = [episode for episode in episodes if episode.outcome != "aborted"]
    described = complete or list(episodes)
    returns = np.array([episode.total_return for episode in described])
    lengths = np.array([episode.length for episode in described])
    p10, p50, p90 = np.percentile(returns, [10, 50, 90])
    outcomes = [episode.outcome for episode in episodes]
    named: list[Episode] = []
    if complete and all(episode.slot is not None for episode in complete):
        lowest = min(complete, key=lambda episode: episode.total_return)
        highest = max(complete, key=lambda episode: episode.total_return)
        longest = max(complete, key=lambda episode: episode.length)
        named = [*complete[-EPISODES_KEPT:], lowest, highest, longest]
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


class EpisodeTallies:
    """Return, length and last version of the running episode of S slots."""

    def __init__(
        self, *, slots: int, environment: str, discount: float, mode: Mode = "train"
    ) -> None:
        """Start before the first episode of every slot; `discount` is a factor per env step."""
        self._environment = environment
        self._mode: Mode = mode
        self._gamma = discount
        self.numbers = [0] * slots
        """Number of episodes started by each slot, ``[S]``."""
        self._return = np.zeros(slots)
        self._discounted = np.zeros(slots)
        self._discount = np.ones(slots)
        self._length = np.zeros(slots, dtype=np.int64)
        self._policy_step = np.full(slots, NO_STEP, dtype=np.int64)

    def begin(self, slot: int) -> int:
        """Start the slot's next episode and return its number, from 1."""
        self._clear(slot)
        self.numbers[slot] += 1
        return self.numbers[slot]

    def acted(self, slots: NDArray[np.intp], policy_step: int) -> None:
        """Record the version that acted last in ``slots [N]``."""
        self._policy_step[slots] = policy_step

    def add(self, slots: NDArray[np.intp], reward: NDArray[Any]) -> None:
        """Add one env step to each of ``slots [N]``, with ``reward [N]``."""
        discount = self._discount[slots]
        self._return[slots] = self._return[slots] + reward
        self._discounted[slots] = self._discounted[slots] + discount * reward
        self._discount[slots] = discount * self._gamma
        self._length[slots] = self._length[slots] + 1

    def has_steps(self, slot: int) -> bool:
        return bool(self._length[slot])

    def end(self, slot: int, outcome: Literal["terminated", "truncated", "aborted"]) -> Episode:
        over = Episode(
            environment=self._environment,
            total_return=float(self._return[slot]),
            discounted_return=float(self._discounted[slot]),
            length=int(self._length[slot]),
            outcome=outcome,
            mode=self._mode,
            policy_step=int(self._policy_step[slot]),
            slot=slot,
            number=self.numbers[slot],
        )
        self._clear(slot)
        return over

    def _clear(self, slot: int) -> None:
        self._return[slot] = self._discounted[slot] = 0.0
        self._discount[slot] = 1.0
        self._length[slot] = 0
        self._policy_step[slot] = NO_STEP
