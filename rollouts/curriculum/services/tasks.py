"""Next task of a worker of a language run."""

from datetime import datetime
from heapq import nlargest
from typing import Final

from django.db import transaction
from django.db.models import F

from buffer.problems.services import Problems, has_unfinished, lease_new, lease_returned
from rolldeck.lessons import RolloutTask, TaskRequest
from rollouts.control.queries.fleets import outage_of_run
from rollouts.curriculum.models import Curriculum, Lesson
from rollouts.curriculum.queries.curricula import RunCurriculum, curriculum_of
from rollouts.curriculum.rules import reweighted
from rollouts.curriculum.services.evaluations import lease_evaluation, open_round
from rollouts.curriculum.services.failure_budget import due_probe
from rollouts.curriculum.services.lessons import ACTOR, begin
from rollouts.curriculum.services.problems import follow_problems, return_problems
from rollouts.curriculum.services.steering import record_task_request
from rollouts.lessons.rules.lessons import LessonStatus, draw_point, training_seed
from rollouts.lessons.rules.strategy import concentration, draw, draw_probabilities
from rollouts.metrics.services.measuring import store_or_warn
from rollouts.metrics.services.metrics import Figure
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import NO_POLICY_STEP, RunStatus
from runs.lifecycle.services.lifecycle import end_run
from web.live.announcements import announce

WAIT_SECONDS: Final = 1.0
LIMIT: Final = "max_rollouts"
"""Reason to wait once a run has assigned its maximum number of rollouts."""
SHARES_AT_MOST: Final = 100
"""Lessons whose shares are stored as series at each version, those of the largest shares."""
LAST: Final = "the last problems are sampled"
"""Reason to wait until all assigned problems have a group."""
OUTAGE: Final = "the failure budget has paused the run"
"""Reason to wait between two probes of an outage."""
ALL_LOCKED: Final = "no lesson is unlocked; start a stopped one again on Curriculum"
_WORKING: Final = (RunStatus.STARTING, RunStatus.RUNNING)


def next_lesson_task(*, run_id: int, request: TaskRequest, now: datetime) -> RolloutTask:
    """Return a due evaluation, otherwise rollouts of a lesson drawn by the strategy's shares.

    During an outage, it returns one problem from time to time.

    Tasks of a run are assigned one after the other, so no two workers get the same problems.
    Returned problems come before new ones. The run drains once its maximum of rollouts is assigned,
    no problem is unfinished and no evaluation is due.

    Raises:
        NoCurriculum: If the run has no lessons.
        InvalidCurriculum: If its strategy is no longer registered.
    """
    curriculum = curriculum_of(run_id)
    # In transactions of their own: `_assign` may lock a lesson, which is locked before problems.
    follow_problems(run_id, now=now)
    if request.held is not None:
        return_problems(run_id, request.worker, request.held, now=now)
    task = _assign(run_id, curriculum, request, now=now)
    if task.reason == LIMIT:
        # After the commit, so that no request locks the curriculum and then the run.
        most = curriculum.language.max_rollouts
        end_run(run_id, reason=f"all {most:,} rollouts of `max_rollouts` are assigned", now=now)
    return task


@transaction.atomic
def _assign(
    run_id: int, curriculum: RunCurriculum, request: TaskRequest, *, now: datetime
) -> RolloutTask:
    run = Run.objects.only("name", "status", "epoch", "policy_step").get(pk=run_id)
    outage = outage_of_run(run)
    if run.status not in _WORKING and outage is None:
        return RolloutTask(kind="wait", reason=str(run.status), wait_seconds=WAIT_SECONDS)
    # Nothing may be generated without weights, or with those of another epoch.
    if run.policy_step == NO_POLICY_STEP or request.epoch != run.epoch:
        return RolloutTask(kind="wait", reason="weights", wait_seconds=WAIT_SECONDS)
    row = begin(run_id, curriculum)
    record_task_request(row, request.worker)
    if outage is None:
        open_round(row, run, curriculum, now=now)
        evaluation = lease_evaluation(run_id, request, curriculum, now=now)
        if evaluation is not None:
            row.save()
            return evaluation
    probe = due_probe(run_id, now=now)
    if outage is not None and probe is None:
        row.save()
        return RolloutTask(kind="wait", reason=OUTAGE, wait_seconds=WAIT_SECONDS)
    shares = _shares(row, run, curriculum, now=now)
    if probe is not None and probe.lesson:
        shares = {probe.lesson: 1.0}
    if not shares:
        row.save()
        return RolloutTask(kind="wait", reason=ALL_LOCKED, wait_seconds=WAIT_SECONDS)
    language = curriculum.language
    most = {name: 1 if probe else language.prompts_of(name) for name in shares}
    returned = lease_returned(run_id, most, worker=request.worker, now=now)
    if returned is not None:
        row.save()
        return _task_of(returned, curriculum)
    left = None
    if language.max_rollouts:
        # Only lessons of which a group fits the limit are drawn.
        assigned = Lesson.objects.filter(run_id=run_id).values_list("name", "examples")
        left = language.max_rollouts - sum(
            examples * language.group_size_of(name) for name, examples in assigned
        )
        shares = {
            name: share for name, share in shares.items() if language.group_size_of(name) <= left
        }
        whole = sum(shares.values())
        shares = {name: share / whole for name, share in shares.items()}
    if not shares and has_unfinished(run_id, most):
        row.save()
        return RolloutTask(kind="wait", reason=LAST, wait_seconds=WAIT_SECONDS)
    if not shares:
        return _hold(row, language.max_rollouts, now=now)
    name = draw(shares, draw_point(seed=curriculum.seed, task=row.tasks))
    row.tasks += 1
    row.save()
    problems = _new_problems(run_id, name, curriculum, many=most[name], left=left)
    lease_new(run_id, problems, worker=request.worker, now=now)
    return _task_of(problems, curriculum)


def _hold(row: Curriculum, most: int, *, now: datetime) -> RolloutTask:
    """Return a task to wait, and emit one event when the limit is reached."""
    if row.limit_reached_at is None:
        row.limit_reached_at = now
        record_event(
            run_id=row.run_id,
            kind="max_rollouts_reached",
            message=f"the maximum of {most:,} rollouts is assigned: the run drains and completes",
            actor=ACTOR,
            now=now,
        )
        announce(row.run_id, "curriculum")
    row.save()
    return RolloutTask(kind="wait", reason=LIMIT, wait_seconds=WAIT_SECONDS)


def _new_problems(
    run_id: int, name: str, curriculum: RunCurriculum, *, many: int, left: int | None
) -> Problems:
    """Return up to `many` problems that were never assigned, for at most `left` rollouts."""
    if left is not None:
        many = min(many, left // curriculum.language.group_size_of(name))
    lesson = Lesson.objects.filter(run_id=run_id, name=name)
    lesson.update(examples=F("examples") + many)
    # The row is locked until the end of the transaction.
    first = lesson.values_list("examples", flat=True).get() - many
    return Problems(name, first, many)


def _task_of(problems: Problems, curriculum: RunCurriculum) -> RolloutTask:
    lesson, first = problems.lesson, problems.first
    return RolloutTask(
        kind="train",
        lesson=lesson,
        first_example=first,
        examples=problems.size,
        generations=curriculum.language.group_size_of(lesson),
        seed=training_seed(
            seed=curriculum.seed, lesson=lesson, first_example=first, attempt=problems.attempts
        ),
        attempt=problems.attempts,
    )


def _shares(
    row: Curriculum, run: Run, curriculum: RunCurriculum, *, now: datetime
) -> dict[str, float]:
    """Return the probability of each lesson that may be drawn; empty if all are locked."""
    unlocked = (
        Lesson.objects.filter(run_id=run.pk)
        .exclude(status=LessonStatus.LOCKED)
        .order_by("position")
        .values_list("name", "weight", "success", "status", "weight_factor")
    )
    found = list(unlocked)
    weights = {one[0]: one[1] for one in found if one[3] == LessonStatus.ACTIVE}
    learnt = [one[0] for one in found if one[3] == LessonStatus.GRADUATED]
    _emit_completion(row, is_complete=not weights, now=now)
    if not found:
        return {}
    shares = draw_probabilities(curriculum.strategy, weights, graduated=learnt)
    shares = reweighted(shares, {one[0]: one[4] for one in found})
    if (row.measured_epoch, row.measured_step) != (run.epoch, run.policy_step):
        row.measured_epoch, row.measured_step = run.epoch, run.policy_step
        # Graduated lessons have the share 0 while others are active.
        of_all = {one[0]: shares.get(one[0], 0.0) for one in found}
        largest = nlargest(SHARES_AT_MOST, of_all, key=of_all.__getitem__)
        figures = {f"curriculum/share/{name}": of_all[name] for name in largest}
        if weights:
            successes = [one[2] for one in found if one[0] in weights]
            spread = concentration(shares)
            figures |= {
                "curriculum/entropy": spread.entropy,
                "curriculum/effective lessons": spread.effective_lessons,
                "curriculum/mean success": sum(successes) / len(successes),
            }
        step = max(run.policy_step, 0)
        store_or_warn(run, [Figure(name, step, value) for name, value in figures.items()], now=now)
        announce(run.pk, "curriculum")
    return shares


def _emit_completion(row: Curriculum, *, is_complete: bool, now: datetime) -> None:
    """Emit one event when every lesson has graduated; a reactivation resets it."""
    if not is_complete:
        row.completed_at = None
        return
    waiting = Lesson.objects.filter(run_id=row.run_id).exclude(status=LessonStatus.GRADUATED)
    if row.completed_at is not None or waiting.exists():
        return
    row.completed_at = now
    record_event(
        run_id=row.run_id,
        kind="curriculum_complete",
        message="all lessons have graduated; they are now sampled uniformly",
        actor=ACTOR,
        now=now,
    )
    announce(row.run_id, "curriculum")
