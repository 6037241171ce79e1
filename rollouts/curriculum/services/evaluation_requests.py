"""Evaluations of lessons on an operator's request."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from django.db import transaction

from rollouts.curriculum.models import Lesson
from rollouts.curriculum.queries.curricula import curriculum_of
from rollouts.curriculum.services.evaluations import LessonNotFound, open_evaluations
from rollouts.curriculum.services.lesson_rows import begin
from rollouts.lessons.rules.lessons import LessonStatus
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.lifecycle import RunStatus
from runs.lifecycle.rules.versions import NO_POLICY_STEP
from web.live.announcements import announce
from web.rules.errors import Conflict

_EVALUATES: Final = (RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED)


class NothingToEvaluate(Conflict):
    """The run has no weights yet, or no workers any more."""

    code = "nothing_to_evaluate"
    title = "There is nothing to evaluate"


@transaction.atomic
def request_evaluations(
    *, run_id: int, lessons: Collection[str], actor: str, reason: str, now: datetime
) -> int:
    """Queue evaluations of lessons at the run's present version, and return the round.

    Queued or running evaluations stay unchanged, and so does the evaluation schedule.

    Args:
        run_id: Id of a language run.
        lessons: Names; empty for all unlocked lessons.
        actor: User who requests them.
        reason: Reason for the run's history.
        now: Present time.

    Raises:
        NoCurriculum: If the run has no lessons.
        LessonNotFound: If a name is unknown.
        NothingToEvaluate: If no version is published, or the run has ended.
    """
    curriculum = curriculum_of(run_id)
    for name in lessons:
        if name not in curriculum.lessons:
            raise LessonNotFound(f"the run has no lesson {name!r}")
    run = Run.objects.only("status", "epoch", "policy_step").get(pk=run_id)
    if run.policy_step == NO_POLICY_STEP:
        raise NothingToEvaluate("no weights are published yet")
    if run.status not in _EVALUATES:
        raise NothingToEvaluate(f"the run is {run.status}: it has no workers to evaluate")
    row = begin(run_id, curriculum)
    row.round += 1
    row.save(update_fields=["round"])
    found = Lesson.objects.filter(run_id=run_id)
    chosen = (
        found.filter(name__in=lessons) if lessons else found.exclude(status=LessonStatus.LOCKED)
    )
    open_evaluations(row, run, chosen.values_list("name", "position"), now=now)
    names = sorted(lessons) or ["all unlocked lessons"]
    record_event(
        run_id=run_id,
        kind="evaluation_requested",
        message=f"requested an evaluation of {', '.join(names)} at version {run.policy_step}",
        reason=reason,
        actor=actor,
        details={"lessons": sorted(lessons), "round": row.round},
        now=now,
    )
    announce(run_id, "curriculum")
    return row.round
