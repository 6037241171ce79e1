"""Say how far a demo's run has come, whatever it learns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from django.db import DatabaseError, connection

from buffer.batches.queries.queue_depth import queue_depth
from rollouts.control.queries.fleets import fleet_state
from runs.models import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What every run has.

    Attributes:
        status: State of the run.
        fleet: State of its fleet as last seen.
        workers_running: Rollout workers at work.
        workers: Rollout workers in all.
        env_steps: Steps of all environments since the start.
        queued: Items that wait for the trainer.
        threshold: Items above which workers wait.
        policy_step: Current policy version; negative before the first weights.
        served_steps: Batches handed to the trainer.
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
    """One look at what a run learns."""

    @property
    def run(self) -> RunState:
        """The run itself."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether anything has been rolled out."""
        ...

    @property
    def has_reached_target(self) -> bool:
        """Whether it has learnt what it should; stays true."""
        ...

    @property
    def share(self) -> float:
        """How much of the way to the target is done, in [0, 1]."""
        ...

    @property
    def summary(self) -> str:
        """Where it is, in half a line; also says what is missing."""
        ...

    @property
    def rows(self) -> dict[str, str]:
        """Where it is, as names and values."""
        ...

    @property
    def news(self) -> Sequence[str]:
        """All that has happened since the start, oldest first; never grows shorter."""
        ...


class Learning(Protocol):
    """Reads what one run has learnt, again and again."""

    def read(self, run: RunState) -> Progress:
        """Return the progress of a run that is in this state."""
        ...


class ProgressReader:
    """Looks at one run again and again; keeps the last look while the database is away."""

    def __init__(self, run_id: int, learning: Learning) -> None:
        self._run_id = run_id
        self._learning = learning
        self._last: Progress | None = None

    def read(self, *, now: datetime) -> Progress | None:
        """Return the run's progress as of now; None before the first look."""
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
    """Return in words what is going on."""
    if progress.has_reached_target:
        return "learnt"
    if trainer_exit_code is not None:
        return "the trainer is started again"
    if progress.run.policy_step < 0:
        return "the trainer registers"
    if not progress.has_begun:
        return f"the fleet starts ({progress.run.fleet})"
    return "learning" if progress.run.status == "running" else progress.run.status
