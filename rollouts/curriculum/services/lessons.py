"""Lesson rows of a run: creation, locks, progress, and changes of their status."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from django.db.models import Q

from rollouts.curriculum.models import STOPPED, Curriculum, Lesson, LessonChange
from rollouts.curriculum.queries.curricula import RunCurriculum, first_rows, weigh
from rollouts.curriculum.rules import unpack
from rollouts.lessons.rules.lessons import LessonStatus, Progress
from rollouts.lessons.rules.strategy import Change, decided
from runs.events.services import record_event
from runs.lifecycle.models import Run

ACTOR: Final = "curriculum"
_EVENTS: Final = {
    (LessonStatus.LOCKED, LessonStatus.ACTIVE): ("lesson_unlocked", "info"),
    (LessonStatus.ACTIVE, LessonStatus.GRADUATED): ("lesson_graduated", "info"),
    (LessonStatus.GRADUATED, LessonStatus.ACTIVE): ("lesson_reactivated", "warning"),
}


def begin(run_id: int, curriculum: RunCurriculum) -> Curriculum:
    """Return the run's curriculum, locked; its lessons are created on first use.

    Lock order: the curriculum before any lesson.
    """
    locked = Curriculum.objects.select_for_update(no_key=True).filter(run_id=run_id)
    found = locked.first()
    if found is not None:
        return found
    Curriculum.objects.bulk_create([Curriculum(run_id=run_id)], ignore_conflicts=True)
    made = locked.get()
    # The first of two concurrent calls holds the lock until its lessons exist.
    if not Lesson.objects.filter(run_id=run_id).exists():
        Lesson.objects.bulk_create(first_rows(run_id, curriculum))
    return made


def progress_of(row: Lesson) -> Progress:
    """Return the status and history of a lesson."""
    return Progress(
        status=LessonStatus(row.status),
        training=unpack(row.training),
        evaluation=unpack(row.evaluation),
    )


def _write_change(
    row: Lesson, progress: Progress, change: Change, curriculum: RunCurriculum
) -> None:
    """Write a status change into a row; `progress` has the new status."""
    row.reason = change.reason
    if change.target is LessonStatus.GRADUATED:
        seen = progress.evaluation.at_last_step()
        row.graduated_successes, row.graduated_samples = seen.successes, seen.samples
    row.has_regressed = False
    weigh(row, progress, curriculum)


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
    held = {name for name, row in rows.items() if row.hold}
    made = decided(curriculum.strategy, rows, curriculum.lessons, all_progress, held=held)
    for change in made:
        _write_change(rows[change.lesson], all_progress[change.lesson], change, curriculum)
    return made


def store_change(change: Change, run: Run, *, actor: str, now: datetime) -> None:
    """Record a status change with its reason in the history of a lesson."""
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


def store_changes(
    rows: dict[str, Lesson], made: Iterable[Change], run: Run, *, actor: str, now: datetime
) -> None:
    """Record the status changes with their reasons, in the lessons' and the run's history."""
    for change in made:
        rows[change.lesson].changed_at = now
        store_change(change, run, actor=actor, now=now)
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


def stop_lesson(
    row: Lesson,
    error: str,
    run: Run,
    curriculum: RunCurriculum,
    *,
    by: str = "its setting on_failure",
    now: datetime,
) -> None:
    """Hold a lesson until an operator starts it again; a stopped lesson stays unchanged.

    No task samples or evaluates it meanwhile, except probes of an outage; its open evaluations
    wait. The caller has locked the row, and saves it.
    """
    if row.hold == STOPPED:
        return
    source = LessonStatus(row.status)
    if not row.hold:
        row.ruled_status = source
    row.hold, row.reason = STOPPED, f"stopped: {error}"
    row.steered_by, row.steered_reason, row.steered_at = ACTOR, error, now
    row.changed_at, row.has_regressed = now, False
    weigh(row, replace(progress_of(row), status=LessonStatus.LOCKED), curriculum)
    change = Change(
        lesson=row.name, source=source, target=LessonStatus(row.status), reason=row.reason
    )
    store_change(change, run, actor=ACTOR, now=now)
    record_event(
        run_id=run.pk,
        kind="lesson_stopped",
        message=f"lesson {row.name} has stopped for the run, by {by}; start it again on Curriculum",
        reason=error,
        actor=ACTOR,
        level="error",
        details={"lesson": row.name},
        now=now,
    )
