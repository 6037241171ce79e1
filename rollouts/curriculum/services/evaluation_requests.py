"""Have lessons evaluated because a person asks."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from django.db import transaction

from rollouts.curriculum.models import Lesson
from rollouts.curriculum.queries.curricula import curriculum_of
from rollouts.curriculum.rules.lessons import LessonStatus
from rollouts.curriculum.services.evaluations import LessonNotFound, open_evaluations
from rollouts.curriculum.services.lesson_rows import begin
from runs.core.lifecycle import RunStatus
from runs.core.versions import NO_POLICY_STEP
from runs.live import announce
from runs.models import Run
from runs.services.events import record_event

_EVALUATES: Final = (RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED)


class NothingToEvaluate(Exception):
    """The run has no weights yet, or no workers any more."""


@transaction.atomic
def request_evaluations(
    *, run_id: int, lessons: Collection[str], actor: str, reason: str, now: datetime
) -> int:
    """Have lessons evaluated at the run's version as soon as a worker is free; return the round.

    What is waiting or under way already stays as it is. The next evaluation of the schedule
    comes when it would have come.

    Args:
        run_id: Of a language run.
        lessons: Names; none for all that are unlocked.
        actor: Who asks.
        reason: Why, for the run's history.
        now: The time.

    Raises:
        NoCurriculum: If the run has no lessons.
        LessonNotFound: If it has none of a name.
        NothingToEvaluate: If there is no version, or the run evaluates nothing any more.
    """
    curriculum = curriculum_of(run_id)
    for name in lessons:
        if name not in curriculum.lessons:
            raise LessonNotFound(f"the run has no lesson {name!r}")
    run = Run.objects.only("status", "epoch", "policy_step").get(pk=run_id)
    if run.policy_step == NO_POLICY_STEP:
        raise NothingToEvaluate("no weights are published yet")
    if run.status not in _EVALUATES:
        raise NothingToEvaluate(f"the run is {run.status}: no worker would take it")
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
        message=f"{', '.join(names)} to be evaluated at version {run.policy_step}",
        reason=reason,
        actor=actor,
        details={"lessons": sorted(lessons), "round": row.round},
        now=now,
    )
    announce(run_id, "curriculum")
    return row.round
