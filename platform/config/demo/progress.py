"""Progress of a demo's run, independent of its kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from django.db import DatabaseError, connection

from buffer.batches.queries.queues import queue_depth
from rollouts.control.queries.fleets import fleet_state
from runs.lifecycle.models.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The figures that every run has.

    Attributes:
        status: State of the run.
        fleet: Last observed state of its fleet.
        workers_running: Number of running rollout workers.
        workers: Number of all rollout workers.
        env_steps: Steps of all environments since the start.
        queued: Items that wait for the trainer.
        threshold: Queue length at which workers pause.
        policy_step: Current policy version; negative before the first weights.
        served_steps: Number of batches leased by the trainer.
    """

    status: str = "queued"
    fleet: str = "none"
    workers_running: int = 0
    workers: int = 0
    env_steps: int = 0
    queued: int = 0
    threshold: float = 0.0
    policy_step: int = -2
    served_steps: int = 0


class Progress(Protocol):
    """A snapshot of the learning progress."""

    @property
    def run(self) -> RunState:
        """State of the run."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether any rollout has finished."""
        ...

    @property
    def has_reached_target(self) -> bool:
        """Whether the target has been reached; stays true."""
        ...

    @property
    def share(self) -> float:
        """Progress towards the target, in [0, 1]."""
        ...

    @property
    def summary(self) -> str:
        """The progress in one phrase, with the remaining part."""
        ...

    @property
    def rows(self) -> dict[str, str]:
        """The progress as names and values."""
        ...

    @property
    def milestones(self) -> Sequence[str]:
        """All events since the start, oldest first; the list only grows."""
        ...


class ProgressSource(Protocol):
    """Reader of the learning progress of one run."""

    def read(self, run: RunState) -> Progress:
        """Return the progress for the given state of the run."""
        ...


class ProgressReader:
    """Repeated reader of one run; keeps the last snapshot while the database is unavailable."""

    def __init__(self, run_id: int, learning: ProgressSource) -> None:
        self._run_id = run_id
        self._learning = learning
        self._last: Progress | None = None

    def read(self, *, now: datetime) -> Progress | None:
        """Return the run's progress as of now; None before the first snapshot."""
        try:
            self._last = self._learning.read(run_state(self._run_id, now=now))
        except DatabaseError:
            connection.close()
        return self._last


def run_state(run_id: int, *, now: datetime) -> RunState:
    """Return the state of a run as of now."""
    run = Run.objects.get(pk=run_id)
    queue = queue_depth(run_id)
    fleet = fleet_state(run_id, now=now)
    return RunState(
        status=run.status,
        fleet=fleet.observed,
        workers_running=sum(worker.state == "running" for worker in fleet.workers),
        workers=len(fleet.workers),
        env_steps=fleet.env_steps_total,
        queued=queue.queued,
        threshold=queue.threshold,
        policy_step=run.policy_step,
        served_steps=run.served_steps,
    )


def phase(progress: Progress, *, trainer_exit_code: int | None) -> str:
    """Describe the current phase in words."""
    if progress.has_reached_target:
        return "learnt"
    if trainer_exit_code is not None:
        return "restarting the trainer"
    if progress.run.policy_step < 0:
        return "waiting for the trainer"
    if not progress.has_begun:
        return f"starting the fleet ({progress.run.fleet})"
    return "learning" if progress.run.status == "running" else progress.run.status
