"""Interface of a curriculum, and one that discards outcomes."""

from typing import Protocol

from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest


class Curriculum(Protocol):
    """Source of tasks and receiver of outcomes; both calls return once the decision is stored."""

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return a task for a free worker."""

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Record an outcome of a lesson; a known key changes nothing."""

    def renew_evaluation(self, evaluation: str, fence: int) -> None:
        """Renew the lease of an evaluation.

        Raises:
            RolldeckError: If another worker holds the lease, or the platform is unreachable.
        """


class NoCurriculum:
    """A curriculum that discards outcomes, for the evaluation of a checkpoint."""

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return a task to wait."""
        return RolloutTask(kind="wait", reason=f"no tasks for {request.worker}", wait_seconds=1.0)

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Discard the outcome."""
        del lesson, outcome
        return OutcomeReceipt(is_new=True)

    def renew_evaluation(self, evaluation: str, fence: int) -> None:
        """Do nothing: evaluations are not leased."""
