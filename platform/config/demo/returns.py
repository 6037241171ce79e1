"""Progress of the CartPole run: the mean return of its latest episodes."""

from dataclasses import dataclass, field
from typing import Final

from config.demo.progress import RunState
from rollouts.episodes.queries import episodes

# Number of episodes in the mean return.
WINDOW_EPISODES: Final = 20
TARGET_RETURN: Final = 450.0
ROWS_PER_READ: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnsProgress:
    """A snapshot of the run.

    Attributes:
        run: State of the run.
        episodes: Number of finished episodes.
        recent_return: Mean return of the last 20 episodes; None before the first.
        best_recent_return: Highest mean return over 20 episodes so far.
    """

    run: RunState = field(default_factory=RunState)
    episodes: int = 0
    recent_return: float | None = None
    best_recent_return: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether an episode has finished."""
        return self.episodes > 0

    @property
    def has_reached_target(self) -> bool:
        """Whether the target return has been reached."""
        return self.best_recent_return is not None and self.best_recent_return >= TARGET_RETURN

    @property
    def share(self) -> float:
        """Share of the target reached by the mean return, in [0, 1]."""
        return min(1.0, max(0.0, self.recent_return or 0.0) / TARGET_RETURN)

    @property
    def summary(self) -> str:
        """The progress in one phrase."""
        return (
            f"{self.run.env_steps} env steps, {self.episodes} episodes, "
            f"mean return {_number(self.recent_return)} of {TARGET_RETURN:g}"
        )

    @property
    def rows(self) -> dict[str, str]:
        """The progress as names and values."""
        return {
            "mean return": f"{_number(self.recent_return)} of {TARGET_RETURN:g}, last 20 episodes",
            "episodes": f"{self.episodes:,}   env steps {self.run.env_steps:,}",
        }

    @property
    def milestones(self) -> tuple[str, ...]:
        """The first episode and the reached target."""
        if not self.has_begun:
            return ()
        if not self.has_reached_target:
            return ("First episode",)
        reached = f"Mean return {self.best_recent_return:.1f} over the last 20 episodes"
        return ("First episode", f"{reached} after {self.run.env_steps} env steps")


class Returns:
    """Reader that counts each episode of one run once."""

    def __init__(self, run_id: int) -> None:
        self._run_id = run_id
        self._last_row: int | None = 0
        self._episodes = 0
        self._recent: float | None = None
        self._best: float | None = None

    def read(self, run: RunState) -> ReturnsProgress:
        """Return the progress for the given state of the run."""
        self._read_episodes()
        return ReturnsProgress(
            run=run,
            episodes=self._episodes,
            recent_return=self._recent,
            best_recent_return=self._best,
        )

    def _read_episodes(self) -> None:
        while True:
            rows = episodes(self._run_id, after=self._last_row, limit=ROWS_PER_READ)
            for row in rows:
                self._last_row = row.id
                self._episodes += row.count
                self._recent = row.recent_return_mean
                if self._episodes >= WINDOW_EPISODES and row.recent_return_mean is not None:
                    self._best = max(self._best or row.recent_return_mean, row.recent_return_mean)
            if len(rows) < ROWS_PER_READ:
                return


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
