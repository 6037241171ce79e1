"""Lessons that stop for the run after a failure, by their setting."""

from dataclasses import replace
from datetime import datetime

from rollouts.curriculum.models import STOPPED, Lesson, LessonChange
from rollouts.curriculum.queries.curricula import RunCurriculum, weigh
from rollouts.curriculum.services.evaluations import ACTOR
from rollouts.curriculum.services.lesson_rows import progress_of
from rollouts.lessons.rules.lessons import LessonStatus
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run


def stop_lesson(
    row: Lesson, error: str, run: Run, curriculum: RunCurriculum, *, now: datetime
) -> None:
    """Hold a lesson until an operator starts it again; a stopped lesson stays unchanged.

    No task samples or evaluates it meanwhile; its open evaluations wait. The caller saves the row.

    Args:
        row: Locked row of the lesson.
        error: Error that stops it.
        run: Run of the lesson.
        curriculum: Curriculum of the run.
        now: Present time.
    """
    if row.hold == STOPPED:
        return
    source = row.status
    if not row.hold:
        row.ruled_status = source
    row.hold, row.reason = STOPPED, f"stopped: {error}"
    row.steered_by, row.steered_reason, row.steered_at = ACTOR, error, now
    row.changed_at, row.has_regressed = now, False
    weigh(row, replace(progress_of(row), status=LessonStatus.LOCKED), curriculum)
    LessonChange.objects.create(
        run_id=run.pk,
        lesson=row.name,
        at=now,
        source=source,
        target=row.status,
        reason=row.reason,
        actor=ACTOR,
        epoch=run.epoch,
        policy_step=run.policy_step,
    )
    record_event(
        run_id=run.pk,
        kind="lesson_stopped",
        message=f"lesson {row.name} has stopped for the run, by its setting on_failure; "
        "start it again on Curriculum",
        reason=error,
        actor=ACTOR,
        level="error",
        details={"lesson": row.name},
        now=now,
    )
