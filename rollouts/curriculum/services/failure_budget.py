"""Failure budgets of language runs: outages pause a run or stop a lesson, and probes end them.

A lesson that fails alone is stopped; when the inference server fails, or every drawn lesson, the
run is paused. Meanwhile the platform assigns one problem from time to time, a probe. The first task
with fewer failures than the limit ends the outage.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Q

from buffer.problems.services import return_skipped
from rolldeck.lessons import LessonOutcome
from rollouts.control.models import FleetWorker, Outage
from rollouts.control.services.outages import (
    ACTOR,
    begin_outage,
    end_outage,
    has_recovered,
    pause_run,
    record_probe,
)
from rollouts.curriculum.models import STOPPED, Lesson
from rollouts.curriculum.models import LessonOutcome as OutcomeRow
from rollouts.curriculum.queries.curricula import RunCurriculum, curriculum_of
from rollouts.curriculum.schemas import LessonSteering
from rollouts.curriculum.services.lessons import locked_rows, stop_lesson
from rollouts.curriculum.services.steering import steer_lesson
from rollouts.lessons.rules.failures import (
    Exhausted,
    Failures,
    Task,
    cause_of,
    exhausted,
    failures_by_cause,
)
from rollouts.lessons.rules.lessons import LessonStatus
from runs.config.rules.failure_budget import CAUSES, Cause, FailureLimit
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.registry import RunIsOver

logger = logging.getLogger(__name__)

LONGEST_WINDOW: Final = timedelta(hours=1)
_WITHOUT_BATCH: Final = ("group_invalid", "group_missing", "nothing_valid")
"""Reasons of lost problems that count as failures if a task has no group."""


# Failures of an outcome.


def failures_of(outcome: LessonOutcome) -> dict[Cause, Failures]:
    """Return the failed rollouts of an outcome, and their newest error, by cause."""
    failed = dict(outcome.failed)
    errors = dict(outcome.errors)
    if not outcome.rewards and not failed:
        lost = {kind: len(numbers) for kind, numbers in outcome.lost_problems.items()}
        kinds = errors.keys() or lost.keys() & set(_WITHOUT_BATCH)
        failed = {kind: (lost.get(kind) or 1) * outcome.generations for kind in kinds}
        if not failed and outcome.error:
            failed = {"environment_failed": outcome.generations}
        errors = {kind: errors.get(kind) or outcome.error for kind in failed}
    return failures_by_cause(failed, errors)


def stored_failures(failures: Mapping[Cause, Failures]) -> dict[str, list[Any]]:
    """Return the failures of an outcome as its row stores them."""
    return {cause: [one.rollouts, one.message] for cause, one in failures.items()}


# Begin outages.


def apply_failure_budgets(*, now: datetime) -> int:
    """Pause the runs, and stop the lessons, whose failures exceed the budget; return their number.

    A run that cannot be evaluated is logged, and does not affect the others.
    """
    for outage in Outage.objects.filter(ended_at=None).select_related("run"):
        _end_if_overtaken(outage, now=now)
    failing = OutcomeRow.objects.filter(at__gte=now - LONGEST_WINDOW).exclude(failures={})
    unanswered = FleetWorker.objects.filter(unanswered_seconds__gt=0)
    runs = Run.objects.current().filter(kind=RunKind.LANGUAGE, status=RunStatus.RUNNING)
    begun = 0
    for run in runs.filter(
        Q(pk__in=failing.values("run")) | Q(pk__in=unanswered.values("fleet__run"))
    ):
        try:
            begun += _apply(run, now=now)
        except Exception:
            logger.exception("failure budget of run %s was not evaluated", run.name)
    return begun


def _apply(run: Run, *, now: datetime) -> int:
    curriculum = curriculum_of(run.pk)
    unlocked = Lesson.objects.filter(run=run).exclude(status=LessonStatus.LOCKED)
    drawn = set(unlocked.filter(weight__gt=0).values_list("name", flat=True)) or set(
        unlocked.values_list("name", flat=True)
    )
    silent = _unanswered(run, curriculum.failure_budget.inference)
    found = (
        [silent]
        if silent
        else exhausted(curriculum.failure_budget, _tasks(run, curriculum, now=now), drawn)
    )
    for one in found:
        if one.lessons:
            for lesson in one.lessons:
                _stop(run, lesson, one, curriculum, now=now)
        else:
            _pause(run, one, drawn, now=now)
    return len(found)


def _unanswered(run: Run, limit: FailureLimit) -> Exhausted | None:
    """Return the outage of an inference server that has not answered any worker for the window."""
    workers = FleetWorker.objects.filter(fleet__run=run, state="running")
    found = list(workers.order_by("unanswered_seconds").values_list("unanswered_seconds", "reason"))
    if not found or not limit.failures or found[0][0] < limit.window_seconds:
        return None
    return Exhausted(cause="inference", rollouts=0, failed=0, message=found[0][1])


def _tasks(run: Run, curriculum: RunCurriculum, *, now: datetime) -> dict[Cause, list[Task]]:
    """Return the tasks in the window of each cause, the oldest first."""
    budget = curriculum.failure_budget
    since = {
        cause: now - timedelta(seconds=budget.limit_of(cause).window_seconds) for cause in CAUSES
    }
    # After an outage, only later failures count.
    found = Outage.objects.filter(run=run, ended_at__gte=min(since.values()))
    ended = dict(found.order_by("ended_at").values_list("lesson", "ended_at"))
    rows = OutcomeRow.objects.filter(run=run, at__gte=min(since.values()), epoch=run.epoch)
    tasks: dict[Cause, list[Task]] = {cause: [] for cause in CAUSES}
    columns = ("lesson", "at", "samples", "failures")
    for lesson, at, samples, failures in rows.order_by("at", "pk").values_list(*columns):
        failed = {cause: Failures(*one) for cause, one in failures.items()}
        rollouts = samples + sum(one.rollouts for one in failed.values())
        over = (end for name, end in ended.items() if name in {"", lesson})
        is_later = all(end is None or at > end for end in over)
        for cause in CAUSES:
            if is_later and at >= since[cause]:
                tasks[cause].append(Task(lesson, rollouts, failed.get(cause)))
    return tasks


@transaction.atomic
def _pause(run: Run, found: Exhausted, lessons: Collection[str], *, now: datetime) -> None:
    if pause_run(run.pk, cause=found.cause, reason=found.reason, now=now):
        _return_skipped(run.pk, lessons, found.cause, since=now - LONGEST_WINDOW)


@transaction.atomic
def _stop(
    run: Run, lesson: str, found: Exhausted, curriculum: RunCurriculum, *, now: datetime
) -> None:
    row = locked_rows(run.pk, lesson, curriculum)[lesson]
    if row.hold == STOPPED:
        return
    stop_lesson(row, found.reason, run, curriculum, by=ACTOR, now=now)
    row.save()
    begin_outage(run.pk, lesson, cause=found.cause, reason=found.reason, now=now)
    _return_skipped(run.pk, [lesson], found.cause, since=now - LONGEST_WINDOW)


def _return_skipped(run_id: int, lessons: Iterable[str], cause: Cause, *, since: datetime) -> None:
    """Assign problems again that were lost by a cause: they are not at fault."""
    return_skipped(
        run_id,
        lessons,
        is_lost_by=lambda reason: reason == "short_group" or cause_of(reason) == cause,
        since=since,
    )


# Probe, and end outages.


def due_probe(run_id: int, *, now: datetime) -> Outage | None:
    """Return the open outage to probe now, and set the time of its next probe; None if none is due.

    The caller has locked the curriculum, so that a probe is assigned once.
    """
    due = Outage.objects.filter(run_id=run_id, ended_at=None, probe_at__lte=now)
    found = due.order_by("probe_at").first()
    if found is not None:
        record_probe(found, now=now)
    return found


def end_outages(
    run_id: int,
    lesson: str,
    *,
    rollouts: int,
    failures: Mapping[Cause, Failures],
    now: datetime,
) -> None:
    """End the outages that a task with `rollouts` complete rollouts shows to be over."""
    if not rollouts:
        return
    curriculum = curriculum_of(run_id)
    whole = rollouts + sum(one.rollouts for one in failures.values())
    for outage in Outage.objects.filter(run_id=run_id, lesson__in=["", lesson], ended_at=None):
        cause: Cause = outage.cause  # type: ignore[assignment]
        failed = failures[cause].rollouts if cause in failures else 0
        if failed < curriculum.failure_budget.limit_of(cause).share * whole:
            _end(outage, f"a task of lesson {lesson} succeeded", resumes=True, now=now)


def _end_if_overtaken(outage: Outage, *, now: datetime) -> None:
    """End an outage whose run or lesson works again, was resumed by a person, or has ended."""
    run = outage.run
    held = Lesson.objects.filter(run=run, name=outage.lesson, hold=STOPPED)
    if not outage.lesson and run.status != RunStatus.PAUSED:
        _end(outage, f"the run is {run.status}", resumes=False, now=now)
    elif not outage.lesson and has_recovered(run):
        _end(outage, "its environments step", resumes=True, now=now)
    elif outage.lesson and not held.exists():
        _end(outage, "the lesson was started again", resumes=False, now=now)


@transaction.atomic
def _end(outage: Outage, reason: str, *, resumes: bool, now: datetime) -> None:
    """End an outage; resume its run, or start its lesson again, unless a person has done it."""
    words = end_outage(outage, reason, resumes=resumes, now=now)
    if not words:
        return
    run_id, lesson = outage.run_id, outage.lesson
    rows = Lesson.objects.filter(run_id=run_id)
    if lesson:
        rows = rows.filter(name=lesson)
    cause: Cause = outage.cause  # type: ignore[assignment]
    names = rows.values_list("name", flat=True)
    _return_skipped(run_id, list(names), cause, since=outage.began_at)
    if resumes and lesson:
        factor = rows.values_list("weight_factor", flat=True).get()
        body = LessonSteering(hold="", weight_factor=factor, reason=words)
        with suppress(RunIsOver):
            steer_lesson(run_id=run_id, lesson=lesson, body=body, actor=ACTOR, now=now)
