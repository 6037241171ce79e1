"""Manual steering of a run's curriculum."""

from dataclasses import replace
from datetime import datetime

from django.db import transaction

from rollouts.control.models import FleetWorker
from rollouts.curriculum.models import STOPPED, Curriculum, Lesson, LessonChange
from rollouts.curriculum.queries.curricula import RunCurriculum, curriculum_of, weigh
from rollouts.curriculum.queries.lessons import requesting_workers
from rollouts.curriculum.schemas import LessonSteering
from rollouts.curriculum.services.lessons import (
    ACTOR,
    begin,
    locked_rows,
    move,
    progress_of,
    progress_of_lessons,
    store_change,
    store_changes,
)
from rollouts.lessons.rules.lessons import LessonStatus
from rollouts.lessons.rules.strategy import Change
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import TERMINAL
from runs.lifecycle.services.registry import RunIsOver
from web.live.announcements import announce
from web.rules.errors import Conflict, NotFound

_STEERED = (
    *("hold", "ruled_status", "weight_factor", "steered_by", "steered_reason", "steered_at"),
    *("status", "reason", "changed_at", "success", "weight", "has_regressed"),
)


class LastLesson(Conflict):
    """Locking the lesson would leave nothing to sample."""

    code = "last_lesson"
    title = "Last open lesson"


@transaction.atomic
def steer_lesson(
    *, run_id: int, lesson: str, body: LessonSteering, actor: str, now: datetime
) -> bool:
    """Hold a lesson locked or active, change its sampling factor, or end the hold.

    A hold overrides the strategy until it ends; then the lesson returns to the status that the
    curriculum gave it, and the strategy decides at once. A lesson that a failure has stopped starts
    again. The next draws use the new weights; tasks already leased are finished. A request for the
    present state changes nothing.

    Returns:
        Whether anything has changed.

    Raises:
        NoCurriculum: If the run has no lessons.
        NotFound: If it has none of this name.
        RunIsOver: If the run is completed, stopped or failed.
        LastLesson: If nothing would be left to sample.
    """
    curriculum = curriculum_of(run_id)
    if lesson not in curriculum.lessons:
        raise NotFound(f"the run has no lesson {lesson!r}")
    run = Run.objects.only("name", "status", "epoch", "policy_step").get(pk=run_id)
    if run.status in TERMINAL:
        raise RunIsOver(f"{run.name} is {run.status}: its lessons are read-only")
    whole = begin(run_id, curriculum)
    rows = locked_rows(run_id, lesson, curriculum)
    row = rows[lesson]
    if (row.hold, row.weight_factor) == (body.hold, body.weight_factor):
        return False
    if row.status != LessonStatus.LOCKED and _target(row, body) is LessonStatus.LOCKED:
        others = Lesson.objects.filter(run_id=run_id).exclude(pk=row.pk)
        if not others.exclude(status=LessonStatus.LOCKED).exists():
            raise LastLesson(
                f"{lesson} is the only unlocked lesson: unlock another one first, or pause the run"
            )
    change = _steered(row, body, actor=actor, curriculum=curriculum, now=now)
    row.save(update_fields=_STEERED)
    reason = f"{change.reason}: {body.reason}" if body.reason else change.reason
    store_change(replace(change, reason=reason), run, actor=actor, now=now)
    record_event(
        run_id=run_id,
        kind="lesson_steered",
        message=f"{lesson} {change.reason}",
        actor=actor,
        reason=body.reason,
        details={"lesson": lesson, "hold": body.hold, **change.figures},
        now=now,
    )
    all_progress = progress_of_lessons(rows, lesson, curriculum)
    made = move(rows, all_progress, curriculum)
    store_changes(rows, made, run, actor=ACTOR, now=now)
    for name in {one.lesson for one in made}:
        rows[name].save()
    whole.steerings += 1
    whole.awaited = requesting_workers(FleetWorker.objects.filter(fleet__run_id=run_id))
    whole.save(update_fields=["steerings", "awaited"])
    announce(run_id, "curriculum")
    return True


def record_task_request(row: Curriculum, worker: str) -> None:
    """Record a worker's task request since the last steering; the caller saves `row`."""
    if worker in row.awaited:
        row.awaited = [one for one in row.awaited if one != worker]
        row.steerings += 1
        announce(row.run_id, "curriculum")


def _target(row: Lesson, body: LessonSteering) -> LessonStatus:
    """Return the lesson's status under the requested steering."""
    return LessonStatus(body.hold or (row.ruled_status if row.hold else row.status))


def _steered(
    row: Lesson, body: LessonSteering, *, actor: str, curriculum: RunCurriculum, now: datetime
) -> Change:
    """Write the requested steering into a row and return the status change."""
    source, target = LessonStatus(row.status), _target(row, body)
    words = _description(row, body, target)
    if body.hold and not row.hold:
        row.ruled_status = row.status
    if body.hold and body.hold != row.hold:
        row.reason = f"{words} by {actor.removeprefix('user:')}"
    elif body.hold != row.hold:
        # Why the curriculum gave the lesson the status that it returns to.
        ruled = LessonChange.objects.filter(run_id=row.run_id, lesson=row.name, actor=ACTOR)
        newest = ruled.exclude(reason__startswith=STOPPED).order_by("-pk").first()
        row.reason = newest.reason if newest and newest.target == target else ""
    if not body.hold:
        row.ruled_status = ""
    row.hold, row.weight_factor = body.hold, body.weight_factor
    row.steered_by, row.steered_reason, row.steered_at = actor, body.reason, now
    if target is not source:
        row.changed_at, row.has_regressed = now, False
        weigh(row, replace(progress_of(row), status=target), curriculum)
    return Change(
        lesson=row.name,
        source=source,
        target=target,
        reason=words,
        figures={"weight_factor": body.weight_factor},
    )


def _description(row: Lesson, body: LessonSteering, target: LessonStatus) -> str:
    """Return the steering action as text for the history."""
    parts = []
    if body.hold != row.hold and row.hold == STOPPED:
        parts.append(f"started again, {target}")
    elif body.hold != row.hold:
        kept = {"locked": "held locked", "active": "held unlocked"}
        parts.append(kept.get(body.hold, f"returned to the curriculum, {target} there"))
    if body.weight_factor != row.weight_factor:
        parts.append(
            f"drawn {body.weight_factor:g} times as often"
            if body.weight_factor != 1
            else "drawn as often as the curriculum sets"
        )
    return " and ".join(parts)
