"""Processing of rollout outcomes: progress, unlocking, graduation and reactivation of lessons."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction

from rolldeck.lessons import LessonOutcome, OutcomeReceipt
from rollouts.curriculum.models import Lesson
from rollouts.curriculum.models import LessonOutcome as OutcomeRow
from rollouts.curriculum.queries.curricula import RunCurriculum, curriculum_of
from rollouts.curriculum.services.evaluations import ACTOR, LessonNotFound, settle_evaluation
from rollouts.curriculum.services.lesson_moves import (
    locked_rows,
    move,
    progress_of_lessons,
    store_changes,
)
from rollouts.curriculum.services.lesson_rows import save_progress
from rollouts.curriculum.services.lesson_stops import stop_lesson
from rollouts.curriculum.services.micro_answers import keep_newest_answers, micro_answers
from rollouts.curriculum.services.outcome_metrics import store_outcome_metrics
from rollouts.lessons.rules import evaluation as evaluation_rules
from rollouts.lessons.rules.lessons import LessonStatus
from rollouts.lessons.rules.performance import Counts, Outcome, Progress
from rollouts.lessons.rules.strategy import Change
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run
from web.live.announcements import announce
from web.rules.errors import InvalidField

REPEAT_ERROR_AFTER: Final = timedelta(minutes=1)
"""Interval between two events about a lesson that fails repeatedly."""
# Excludes the performance in the other mode, which is long, and the counters of tasks.
_WRITTEN: Final = {field.attname for field in Lesson._meta.concrete_fields} - {  # noqa: SLF001
    *("id", "run_id", "name", "position", "examples", "training", "evaluation"),
}


class InvalidOutcome(InvalidField):
    """An outcome is inconsistent; `field` names the field."""


@transaction.atomic
def count_outcome(
    *, run_id: int, lesson: str, outcome: LessonOutcome, now: datetime
) -> OutcomeReceipt:
    """Count an outcome exactly once, and apply the status changes that follow.

    Outcomes of one lesson are serialized; those of different lessons run concurrently. Outcomes of
    another epoch than the run's, and of micro-evaluations, are only logged.

    Raises:
        NoCurriculum: If the run has no lessons.
        LessonNotFound: If it has none of this name.
        InvalidOutcome: If the outcome is inconsistent.
        EvaluationNotFound: If the lesson has no such evaluation.
        EvaluationLeaseLost: If the evaluation was leased again, or finished.
    """
    curriculum = curriculum_of(run_id)
    if lesson not in curriculum.lessons:
        raise LessonNotFound(f"the run has no lesson {lesson!r}")
    evaluation = _check(outcome, curriculum)
    rows = locked_rows(run_id, lesson, curriculum)
    run = Run.objects.only("epoch", "policy_step").get(pk=run_id)
    is_counted = outcome.mode != "micro_eval" and outcome.epoch == run.epoch
    if not _store(run_id, lesson, outcome, is_counted=is_counted, now=now):
        return OutcomeReceipt(is_new=False)
    if outcome.mode == "micro_eval":
        keep_newest_answers(run_id, lesson)
    row = rows[lesson]
    row.outcomes += 1
    if outcome.error:
        _record_error(row, outcome, run, curriculum, now=now)
    settled = settle_evaluation(row, outcome, evaluation, now=now) if evaluation else None
    row.last_evaluation = settled or row.last_evaluation
    made: list[Change] = []
    if is_counted and outcome.rewards:
        all_progress = progress_of_lessons(rows, lesson, curriculum)
        _learn(row, all_progress, outcome, curriculum, round_number=settled.round if settled else 0)
        made = move(rows, all_progress, curriculum)
        store_changes(rows, made, run, actor=ACTOR, now=now)
        if settled:
            _watch_regression(row, all_progress[lesson], now=now)
    for name in {lesson, *(change.lesson for change in made)}:
        rows[name].save(update_fields=_written(outcome.mode))
    announce(run_id, "curriculum")
    # After the commit: a transaction that holds lessons must not wait for series of metrics.
    store = partial(store_outcome_metrics, run_id, lesson, outcome, now=now)
    transaction.on_commit(store, robust=True)
    return OutcomeReceipt(
        is_new=True, changes=[f"{one.lesson}: {one.target}: {one.reason}" for one in made]
    )


def _check(outcome: LessonOutcome, curriculum: RunCurriculum) -> UUID | None:
    """Return the id of the outcome's evaluation, if it belongs to one."""
    count = len(outcome.rewards)
    if len(outcome.successes) != count:
        raise InvalidOutcome("successes", f"{len(outcome.successes)} successes for {count} rewards")
    if count % outcome.generations:
        raise InvalidOutcome(
            "rewards", f"{count} is not a multiple of {outcome.generations} answers"
        )
    if outcome.mode != "eval":
        return None
    expected = curriculum.language.evaluation.generations
    if count and outcome.generations != expected:
        raise InvalidOutcome("generations", f"evaluations of this run require {expected}")
    try:
        return UUID(outcome.evaluation)
    except ValueError:
        raise InvalidOutcome("evaluation", "must be the id of a leased evaluation") from None


def _written(mode: str) -> set[str]:
    return _WRITTEN | {"training" if mode == "train" else "evaluation"}


def _store(
    run_id: int, lesson: str, outcome: LessonOutcome, *, is_counted: bool, now: datetime
) -> bool:
    """Store the outcome under its key; return False if the key exists."""
    count = len(outcome.rewards)
    _, is_new = OutcomeRow.objects.get_or_create(
        run_id=run_id,
        key=outcome.key,
        defaults={
            "lesson": lesson,
            "at": now,
            "worker": outcome.worker,
            "mode": outcome.mode,
            "epoch": outcome.epoch,
            "policy_step": outcome.policy_step,
            "counted": is_counted and count > 0,
            "samples": count,
            "successes": sum(outcome.successes),
            "reward_mean": sum(outcome.rewards) / count if count else None,
            "seconds": outcome.seconds,
            "error": outcome.error,
            "answers": micro_answers(outcome),
        },
    )
    return is_new


def _record_error(
    row: Lesson, outcome: LessonOutcome, run: Run, curriculum: RunCurriculum, *, now: datetime
) -> None:
    """Count an error, and stop the lesson or emit an event at limited intervals."""
    row.errors += 1
    row.last_error = outcome.error
    if outcome.stops:
        stop_lesson(row, outcome.error, run, curriculum, now=now)
        return
    if row.told_of_error_at is not None and now - row.told_of_error_at < REPEAT_ERROR_AFTER:
        return
    row.told_of_error_at = now
    record_event(
        run_id=row.run_id,
        kind="lesson_failed",
        message=f"lesson {row.name} produced no rollouts; other lessons continue",
        reason=outcome.error,
        actor=ACTOR,
        level="warning",
        details={"lesson": row.name, "errors": row.errors},
        now=now,
    )


def _learn(
    row: Lesson,
    all_progress: dict[str, Progress],
    outcome: LessonOutcome,
    curriculum: RunCurriculum,
    *,
    round_number: int,
) -> None:
    """Add an outcome to the progress of its lesson."""
    progress = all_progress[row.name]
    if outcome.mode == "eval":
        # Counted by rounds, because steps restart with each epoch.
        seen = evaluation_rules.as_outcome(
            outcome.rewards,
            outcome.successes,
            generations=outcome.generations,
            step=round_number,
        )
        progress = replace(progress, evaluation=progress.evaluation.add(seen))
    else:
        seen = Outcome(
            step=outcome.policy_step,
            rewards=tuple(outcome.rewards),
            successes=sum(outcome.successes),
        )
        progress = replace(progress, training=progress.training.add(seen))
        row.samples += len(outcome.rewards)
        row.groups += len(outcome.rewards) // outcome.generations
        row.zero_variance_groups += outcome.zero_variance_groups
        row.tokens += outcome.tokens
        row.truncated += outcome.truncated
        row.duplicates += outcome.duplicates
    all_progress[row.name] = progress
    save_progress(row, progress, curriculum, mode=outcome.mode)


def _watch_regression(row: Lesson, progress: Progress, *, now: datetime) -> None:
    """Emit one event when a graduated lesson is significantly worse than at graduation."""
    if row.status != LessonStatus.GRADUATED:
        return
    then = Counts(-1, row.graduated_successes, row.graduated_samples)
    seen = progress.evaluation.at_last_step()
    has_regressed = evaluation_rules.has_regressed(at_graduation=then, now=seen)
    if has_regressed and not row.has_regressed:
        record_event(
            run_id=row.run_id,
            kind="lesson_regressed",
            message=f"lesson {row.name} is worse than at graduation",
            reason=f"{seen.successes} of {seen.samples} problems succeed now, "
            f"{then.successes} of {then.samples} at graduation",
            actor=ACTOR,
            level="warning",
            details={"lesson": row.name},
            now=now,
        )
    row.has_regressed = has_regressed
