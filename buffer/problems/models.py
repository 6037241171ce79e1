"""Model of the assigned problems of lessons."""

from django.db import models
from django.db.models import Q

from buffer.problems.rules import OPEN, ProblemState
from runs.lifecycle.models import Run

_STATES = [(str(state), str(state)) for state in ProblemState]


class LessonProblem(models.Model):
    """A problem of a lesson that was assigned to a worker."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="+")
    lesson = models.CharField(max_length=64)
    number = models.PositiveBigIntegerField(help_text="Of the lesson, from 0.")
    state = models.CharField(max_length=8, choices=_STATES, default=str(ProblemState.LEASED))
    attempts = models.PositiveSmallIntegerField(default=1, help_text="Times it was assigned.")
    reason = models.CharField(
        max_length=40, blank=True, default="", help_text="Why its last group was lost."
    )
    worker = models.CharField(max_length=120, blank=True, help_text="Last one it was assigned to.")
    leased_at = models.DateTimeField()
    group = models.BigIntegerField(null=True, blank=True, help_text="Id of its newest group.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "lesson", "number"], name="lesson_problem_is_one"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[str(state) for state in ProblemState]),
                name="lesson_problem_state_is_known",
            ),
            models.CheckConstraint(
                condition=~Q(state=str(ProblemState.SKIPPED)) | ~Q(reason=""),
                name="lesson_problem_skipped_has_a_reason",
            ),
        ]
        indexes = [
            models.Index(
                fields=["run", "state", "id"],
                condition=Q(state__in=[str(state) for state in OPEN]),
                name="lesson_problem_open",
            ),
            models.Index(
                fields=["run", "-id"],
                condition=Q(state=str(ProblemState.SKIPPED)),
                name="lesson_problem_skipped",
            ),
        ]

    def __str__(self) -> str:
        return f"problem {self.number} of {self.lesson} of run {self.run_id}"
