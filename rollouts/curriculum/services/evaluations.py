"""Evaluation rounds of lessons, when due or on request, leased to workers."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import msgspec
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest, Now

from rolldeck.lessons import LessonOutcome, RolloutTask, TaskRequest
from rollouts.curriculum.models import STOPPED, Curriculum, Evaluation, Lesson
from rollouts.curriculum.queries.curricula import RunCurriculum, curriculum_of
from rollouts.curriculum.services.lessons import ACTOR, begin
from rollouts.lessons.rules.evaluation import figures_of, is_due, is_in_round
from rollouts.lessons.rules.lessons import LessonStatus, evaluation_seed
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import NO_POLICY_STEP, RunStatus
from web.live.announcements import announce
from web.rules.errors import Conflict, NotFound

MOST_ATTEMPTS: Final = 5
_EVALUATES: Final = (RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED)
LONGEST_LEASE: Final = timedelta(days=1)


class EvaluationLeaseLost(Conflict):
    """The evaluation was leased again, or finished, since this worker leased it."""

    code = "lease_lost"
    title = "The lease is lost"


class NothingToEvaluate(Conflict):
    """The run has no weights yet, or no workers any more."""

    code = "nothing_to_evaluate"
    title = "There is nothing to evaluate"


def open_round(row: Curriculum, run: Run, curriculum: RunCurriculum, *, now: datetime) -> None:
    """Queue evaluations of the lessons if they are due at the present version.

    A lesson whose last evaluation is still open is skipped, so that results arrive in order. `row`
    is locked, and saved by the caller.
    """
    last = (row.round_epoch, row.round_step) if row.round else None
    evaluation = curriculum.language.evaluation
    every = evaluation.every_train_steps
    if not is_due(last=last, now=(run.epoch, run.policy_step), every=every):
        return
    row.round += 1
    row.round_epoch, row.round_step = run.epoch, run.policy_step
    rows = Lesson.objects.filter(run_id=run.pk)
    if not evaluation.evaluates_locked:
        rows = rows.exclude(status=LessonStatus.LOCKED)
    due = [
        (name, position)
        for name, position, status in rows.values_list("name", "position", "status")
        if is_in_round(
            position=position,
            round_number=row.round,
            every=evaluation.graduated_every_rounds if status == LessonStatus.GRADUATED else 1,
        )
    ]
    open_evaluations(row, run, due, now=now)
    announce(run.pk, "curriculum")


def open_evaluations(
    row: Curriculum, run: Run, lessons: Iterable[tuple[str, int]], *, now: datetime
) -> None:
    """Queue an evaluation of each lesson (name and position) at the run's version.

    Lessons whose last evaluation is still open are skipped. `row` is locked, and its round is
    already incremented.
    """
    Evaluation.objects.bulk_create(
        [
            Evaluation(
                run_id=run.pk,
                lesson=name,
                position=position,
                round=row.round,
                epoch=run.epoch,
                due_step=run.policy_step,
                created_at=now,
            )
            for name, position in lessons
        ],
        ignore_conflicts=True,
    )


def lease_evaluation(
    run_id: int, request: TaskRequest, curriculum: RunCurriculum, *, now: datetime
) -> RolloutTask | None:
    """Lease the oldest evaluation that the worker's version is new enough for, if any."""
    is_free = Q(state="queued") | Q(state="leased", expires_at__lt=Now())
    is_new_enough = Q(epoch__lt=request.epoch) | Q(
        epoch=request.epoch, due_step__lte=request.policy_step
    )
    stopped = Lesson.objects.filter(run_id=run_id, hold=STOPPED).values("name")
    # The holder of a locked row is about to finish it.
    due = Evaluation.objects.select_for_update(skip_locked=True).exclude(lesson__in=stopped)
    due = due.filter(is_free, is_new_enough, run_id=run_id).order_by("round", "position")
    found = due.first()
    while found is not None and found.attempts >= MOST_ATTEMPTS:
        last = f"; the last error was: {found.reason}" if found.reason else ""
        reason = f"{MOST_ATTEMPTS} attempts; the last worker was lost{last}"
        _give_up(found, state="lost", reason=reason, now=now)
        found = due.first()
    if found is None:
        return None
    evaluation = curriculum.language.evaluation
    # Each attempt gets twice the time of the previous one, so a slow evaluation finishes
    # eventually.
    seconds = timedelta(seconds=evaluation.lease_seconds * 2**found.attempts)
    Evaluation.objects.filter(pk=found.pk).update(
        state="leased",
        worker=request.worker,
        fence=F("fence") + 1,
        attempts=F("attempts") + 1,
        # The database's clock, because the clocks of workers and servers may differ.
        expires_at=Now() + min(seconds, LONGEST_LEASE),
    )
    return RolloutTask(
        kind="evaluate",
        lesson=found.lesson,
        first_example=0,
        examples=evaluation.examples,
        generations=evaluation.generations,
        seed=evaluation_seed(seed=curriculum.seed, lesson=found.lesson),
        evaluation=str(found.pk),
        fence=found.fence + 1,
    )


def renew_evaluation(*, run_id: int, evaluation: UUID, fence: int) -> float:
    """Renew a worker's lease and return the seconds until it expires.

    An expired lease that was not given to another worker is renewed too.

    Raises:
        NoCurriculum: If the run has no lessons.
        NotFound: If it has no such evaluation.
        EvaluationLeaseLost: If the evaluation was leased again, or finished.
    """
    seconds = curriculum_of(run_id).language.evaluation.lease_seconds
    mine = Evaluation.objects.filter(pk=evaluation, run_id=run_id)
    # Later attempts began with a longer lease, which must not be shortened.
    until = Greatest(F("expires_at"), Now() + timedelta(seconds=seconds))
    if mine.filter(state="leased", fence=fence).update(expires_at=until):
        return seconds
    found = mine.only("state", "fence").first()
    if found is None:
        raise NotFound(f"the run has no evaluation {evaluation}")
    raise _lost(found, fence)


def settle_evaluation(
    row: Lesson, outcome: LessonOutcome, evaluation: UUID, *, now: datetime
) -> Evaluation | None:
    """Store and return the result of a leased evaluation; return None if there was no result.

    An evaluation without valid rollouts is leased to the next worker.

    Raises:
        NotFound: If the lesson has no such evaluation.
        EvaluationLeaseLost: If it was leased again, or finished.
    """
    mine = Evaluation.objects.filter(pk=evaluation, run_id=row.run_id, lesson=row.name)
    found = mine.select_for_update().first()
    if found is None:
        raise NotFound(f"{row.name} has no evaluation {evaluation}")
    if found.state != "leased" or found.fence != outcome.fence:
        raise _lost(found, outcome.fence)
    if not outcome.rewards:
        reason = outcome.error or "no rollout was valid"
        if found.attempts >= MOST_ATTEMPTS:
            _give_up(found, state="failed", reason=reason, now=now)
        else:
            found.state, found.expires_at, found.reason = "queued", None, reason
            found.save(update_fields=["state", "expires_at", "reason"])
        return None
    figures = figures_of(
        outcome.rewards,
        outcome.successes,
        generations=outcome.generations,
        tokens=outcome.tokens,
        truncated=outcome.truncated,
        seconds=outcome.seconds,
    )
    found.state, found.finished_at, found.expires_at, found.reason = "done", now, None, ""
    found.epoch, found.policy_step = outcome.epoch, outcome.policy_step
    found.figures = msgspec.to_builtins(figures, str_keys=True)
    found.samples = msgspec.to_builtins(outcome.samples)
    found.save()
    return found


def _lost(found: Evaluation, fence: int) -> EvaluationLeaseLost:
    return EvaluationLeaseLost(
        f"evaluation {found.pk} is {found.state} with fence {found.fence}, not leased with {fence}"
    )


def _give_up(
    found: Evaluation, *, state: Literal["failed", "lost"], reason: str, now: datetime
) -> None:
    """End an evaluation after too many attempts; the next round repeats it."""
    found.state, found.expires_at, found.finished_at, found.reason = state, None, now, reason
    found.save(update_fields=["state", "expires_at", "finished_at", "reason"])
    record_event(
        run_id=found.run_id,
        kind=f"evaluation_{state}",
        message=f"{found.lesson} could not be evaluated in round {found.round}: "
        f"{found.attempts} attempts",
        reason=reason,
        actor=ACTOR,
        level="warning",
        now=now,
    )


@transaction.atomic
def request_evaluations(
    *, run_id: int, lessons: Collection[str], actor: str, reason: str, now: datetime
) -> int:
    """Queue evaluations of lessons, by default of all unlocked ones, at the run's present version.

    Queued or running evaluations stay unchanged, and so does the evaluation schedule.

    Returns:
        Number of the round.

    Raises:
        NoCurriculum: If the run has no lessons.
        NotFound: If a name is unknown.
        NothingToEvaluate: If no version is published, or the run has ended.
    """
    curriculum = curriculum_of(run_id)
    for name in lessons:
        if name not in curriculum.lessons:
            raise NotFound(f"the run has no lesson {name!r}")
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
