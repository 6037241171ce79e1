"""Learning progress of a demo's run, read from the database."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from buffer.batches.queries.queues import queue_depth
from rollouts.control.queries.fleets import fleet_state
from rollouts.curriculum.queries.lessons import lesson_changes, lessons
from rollouts.curriculum.schemas import LessonChangeRow, LessonRow
from rollouts.episodes.queries import episodes
from runs.lifecycle.models import Run
from web.rules.amounts import percent
from web.rules.pages import PageRequest

WINDOW_EPISODES: Final = 20
"""Number of episodes in the mean return."""
TARGET_RETURN: Final = 450.0
TARGET_LESSONS: Final = 3
TARGET_SUCCESS: Final = 0.9
ROWS_PER_READ: Final = 500
_MOVES: Final = {
    ("locked", "active"): "unlocks",
    ("active", "graduated"): "graduates",
    ("graduated", "active"): "falls back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The figures that every run has; `policy_step` is negative before the first weights."""

    status: str = "queued"
    fleet: str = "none"
    workers_running: int = 0
    workers: int = 0
    env_steps: int = 0
    queued: int = 0
    threshold: float = 0.0
    policy_step: int = -2
    served_steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A snapshot of what a run has learnt.

    Attributes:
        has_begun: Whether any rollout has finished.
        has_reached_target: Whether the target has been reached; stays true.
        share: Progress towards the target, in [0, 1].
        summary: The progress in one phrase, with the target.
        rows: The progress as names and values.
        milestones: All events since the start, oldest first; the list only grows.
    """

    has_begun: bool
    has_reached_target: bool
    share: float
    summary: str
    rows: dict[str, str]
    milestones: Sequence[str]


Reader = Callable[[RunState], Progress]
"""Returns the progress of one run, given its state."""


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


def phase(run: RunState, progress: Progress, *, trainer_exit_code: int | None) -> str:
    """Describe the current phase in words."""
    if progress.has_reached_target:
        return "learnt"
    if trainer_exit_code is not None:
        return "restarting the trainer"
    if run.policy_step < 0:
        return "waiting for the trainer"
    if not progress.has_begun:
        return f"starting the fleet ({run.fleet})"
    return "learning" if run.status == "running" else run.status


class Returns:
    """Reader of the mean return of a run's newest episodes; counts each episode once."""

    def __init__(self, run_id: int) -> None:
        self._run_id = run_id
        self._last_row: int | None = 0
        self._episodes = 0
        self._recent: float | None = None
        self._best: float | None = None

    def __call__(self, run: RunState) -> Progress:
        while True:
            rows = episodes(self._run_id, after=self._last_row, limit=ROWS_PER_READ)
            for row in rows:
                self._last_row = row.id
                self._episodes += row.count
                self._recent = row.recent_return_mean
                if self._episodes >= WINDOW_EPISODES and row.recent_return_mean is not None:
                    self._best = max(self._best or row.recent_return_mean, row.recent_return_mean)
            if len(rows) < ROWS_PER_READ:
                return return_progress(
                    run, episodes=self._episodes, recent=self._recent, best=self._best
                )


def return_progress(
    run: RunState, *, episodes: int, recent: float | None, best: float | None
) -> Progress:
    """Return the progress of a run with so many finished episodes.

    Args:
        run: State of the run.
        episodes: Number of finished episodes.
        recent: Mean return of the last 20 episodes; None before the first.
        best: Highest mean return over 20 episodes so far.
    """
    is_reached = best is not None and best >= TARGET_RETURN
    mean = f"{'–' if recent is None else f'{recent:.1f}'} of {TARGET_RETURN:g}"
    milestones = ["First episode"] if episodes else []
    if is_reached:
        milestones.append(
            f"Mean return {best:.1f} over the last 20 episodes after {run.env_steps} env steps"
        )
    return Progress(
        has_begun=episodes > 0,
        has_reached_target=is_reached,
        share=min(1.0, max(0.0, recent or 0.0) / TARGET_RETURN),
        summary=f"{run.env_steps} env steps, {episodes} episodes, mean return {mean}",
        rows={
            "mean return": f"{mean}, last 20 episodes",
            "episodes": f"{episodes:,}   env steps {run.env_steps:,}",
        },
        milestones=milestones,
    )


def lesson_reader(run_id: int) -> Reader:
    """Return a reader of the lessons of a run."""

    def read(_: RunState) -> Progress:
        newest: PageRequest[int] = PageRequest(limit=ROWS_PER_READ)
        changes = lesson_changes(run_id, lesson="", page=newest).results
        return lesson_progress(lessons(run_id).results, list(reversed(changes)))

    return read


def lesson_progress(rows: Sequence[LessonRow], changes: Sequence[LessonChangeRow]) -> Progress:
    """Return the progress of all lessons, given the changes of their status, oldest first.

    The target is that enough lessons have ever graduated, and that the first of them is still
    mastered.
    """
    graduated = list(dict.fromkeys(one.lesson for one in changes if one.target == "graduated"))
    first = next((_success(row) for row in rows if row.name in graduated[:1]), None)
    target = min(TARGET_LESSONS, len(rows))
    summary = f"{len(graduated)} of {len(rows)} lessons have graduated, {target} required"
    if graduated:
        summary += f", {graduated[0]} evaluated at {_percent(first)}"
    return Progress(
        has_begun=any(row.samples for row in rows),
        has_reached_target=first is not None
        and first >= TARGET_SUCCESS
        and len(graduated) >= target,
        share=min(1.0, len(graduated) / max(1, target)),
        summary=summary,
        rows={
            row.name: f"{row.status:9}  evaluated {_percent(_success(row)):>7}   "
            f"drawn {_percent(row.probability):>7}"
            for row in rows
        },
        milestones=[
            f"{one.lesson} {_MOVES.get((one.source, one.target), one.target)} "
            f"at version {one.policy_step} ({one.reason})"
            for one in changes
        ],
    )


def _success(row: LessonRow) -> float | None:
    """Return the success, in [0, 1], of a lesson's newest evaluation."""
    figures = row.evaluation.figures if row.evaluation else None
    return figures.success.estimate if figures else None


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share, digits=1)
