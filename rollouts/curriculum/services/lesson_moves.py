"""Status changes of lessons: locking, evaluation by the strategy, and history."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.db.models import Q

from rollouts.curriculum.models import Lesson, LessonChange
from rollouts.curriculum.queries.curricula import RunCurriculum
from rollouts.curriculum.rules.steering import decide
from rollouts.curriculum.services.lesson_rows import begin, moved, progress_of
from rollouts.lessons.rules.lessons import LessonStatus
from rollouts.lessons.rules.performance import Progress
from rollouts.lessons.rules.strategy import Change
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run

_EVENTS: Final = {
    (LessonStatus.LOCKED, LessonStatus.ACTIVE): ("lesson_unlocked", "info"),
    (LessonStatus.ACTIVE, LessonStatus.GRADUATED): ("lesson_graduated", "info"),
    (LessonStatus.GRADUATED, LessonStatus.ACTIVE): ("lesson_reactivated", "warning"),
}


def locked_rows(run_id: int, lesson: str, curriculum: RunCurriculum) -> dict[str, Lesson]:
    """Lock and return the lesson and the locked ones that it may unlock.

    If two lessons unlock a third one, both wait for its row lock, and the later transaction sees
    the earlier one's changes. Rows are locked in the order of positions, which all requirements
    follow.
    """
    names = [lesson, *curriculum.dependents.get(lesson, [])]
    selected = Lesson.objects.filter(
        Q(name=lesson) | Q(status=LessonStatus.LOCKED), run_id=run_id, name__in=names
    )
    ordered = selected.select_for_update(no_key=True).order_by("position")
    found = {row.name: row for row in ordered}
    if lesson not in found:
        begin(run_id, curriculum)
        found = {row.name: row for row in ordered.all()}
    return found


def progress_of_lessons(
    rows: dict[str, Lesson], lesson: str, curriculum: RunCurriculum
) -> dict[str, Progress]:
    """Return the progress of the locked rows and of their requirements."""
    all_progress = {name: progress_of(row) for name, row in rows.items()}
    required = {one.lesson for name in rows for one in curriculum.lessons[name].requires}
    missing = required - rows.keys()
    if missing:
        others = Lesson.objects.filter(run_id=rows[lesson].run_id, name__in=missing)
        all_progress |= {
            row.name: progress_of(row)
            for row in others.only("name", "status", "training", "evaluation")
        }
    return all_progress


def move(
    rows: dict[str, Lesson], all_progress: dict[str, Progress], curriculum: RunCurriculum
) -> list[Change]:
    """Change the status of lessons until none changes, each at most once; return the changes.

    Held lessons keep their status.
    """
    made: dict[str, Change] = {}
    held = {name for name, row in rows.items() if row.hold}
    while True:
        found = (
            decide(curriculum.strategy, name, curriculum.lessons, all_progress, held=held)
            for name in rows
            if name not in made
        )
        fresh = [change for change in found if change is not None]
        if not fresh:
            return list(made.values())
        for change in fresh:
            row = rows[change.lesson]
            all_progress[row.name] = moved(row, all_progress[row.name], change, curriculum)
            made[row.name] = change


def store_changes(
    rows: dict[str, Lesson], made: Iterable[Change], run: Run, *, actor: str, now: datetime
) -> None:
    """Record the status changes with their reasons, in the lessons' and the run's history."""
    for change in made:
        rows[change.lesson].changed_at = now
        LessonChange.objects.create(
            run_id=run.pk,
            lesson=change.lesson,
            at=now,
            source=change.source,
            target=change.target,
            reason=change.reason,
            actor=actor,
            figures=change.figures,
            epoch=run.epoch,
            policy_step=run.policy_step,
        )
        kind, level = _EVENTS.get((change.source, change.target), ("lesson_moved", "info"))
        record_event(
            run_id=run.pk,
            kind=kind,
            level=level,
            message=f"{change.lesson}: {change.source} → {change.target}",
            reason=change.reason,
            actor=actor,
            details={"lesson": change.lesson, **change.figures},
            now=now,
        )
