"""Read how far the demo's run has come."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import DatabaseError, connection

from buffer.selectors import queue_depth
from rollouts.selectors import episodes, fleet_state
from runs.models import Run

# The mean that counts is that of this many episodes.
WINDOW_EPISODES: Final = 20
TARGET_RETURN: Final = 450.0
ROWS_PER_READ: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One look at the run.

    Attributes:
        status: State of the run.
        fleet: State of its fleet as last seen.
        workers_running: Rollout workers at work.
        workers: Rollout workers in all.
        env_steps: Steps of all environments since the start.
        episodes: Episodes that ended.
        recent_return: Mean return of the last 20 episodes; None before the first.
        best_recent_return: The highest that mean has been since there were 20.
        queued: Fragments that wait for the trainer.
        threshold: Fragments above which workers wait.
        policy_step: Current policy version; negative before the first weights.
        served_steps: Batches handed to the trainer.
    """

    status: str = "queued"
    fleet: str = "none"
    workers_running: int = 0
    workers: int = 0
    env_steps: int = 0
    episodes: int = 0
    recent_return: float | None = None
    best_recent_return: float | None = None
    queued: int = 0
    threshold: float = 0.0
    policy_step: int = -2
    served_steps: int = 0

    @property
    def has_reached_target(self) -> bool:
        """Whether the policy has learnt what it should."""
        return self.best_recent_return is not None and self.best_recent_return >= TARGET_RETURN

    def phase(self, *, trainer_exit_code: int | None) -> str:
        """Return in words what is going on."""
        if self.has_reached_target:
            return "learnt"
        if trainer_exit_code is not None:
            return "the trainer is started again"
        if self.policy_step < 0:
            return "the trainer registers"
        if not self.episodes:
            return f"the fleet starts ({self.fleet})"
        return "learning" if self.status == "running" else self.status


class ProgressReader:
    """Looks at one run again and again; keeps the last look while the database is away."""

    def __init__(self, run_id: int) -> None:
        self._run_id = run_id
        self._last_row: int | None = 0
        self._episodes = 0
        self._recent: float | None = None
        self._best: float | None = None
        self._last = Progress()

    def read(self, *, now: datetime) -> Progress:
        """Return the run's progress as of now."""
        try:
            self._last = self._look(now)
        except DatabaseError:
            connection.close()
        return self._last

    def _look(self, now: datetime) -> Progress:
        self._read_episodes()
        run = Run.objects.get(pk=self._run_id)
        queue = queue_depth(self._run_id)
        fleet = fleet_state(self._run_id, now=now)
        return Progress(
            status=run.status,
            fleet=fleet.observed,
            workers_running=sum(worker.state == "running" for worker in fleet.workers),
            workers=len(fleet.workers),
            env_steps=fleet.env_steps_total,
            episodes=self._episodes,
            recent_return=self._recent,
            best_recent_return=self._best,
            queued=queue.queued,
            threshold=queue.threshold,
            policy_step=run.policy_step,
            served_steps=run.served_steps,
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
