"""Outcomes of lesson tasks: progress and status changes, series, sample answers, retention."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Max

from buffer.items.models import ShortGroup
from buffer.items.rules.ledger import RolloutLosses
from buffer.items.services import record_losses
from rolldeck.lessons import LessonOutcome, OutcomeReceipt
from rollouts.curriculum.models import Lesson
from rollouts.curriculum.models import LessonOutcome as OutcomeRow
from rollouts.curriculum.queries.curricula import RunCurriculum, curriculum_of, weigh
from rollouts.curriculum.rules import pack
from rollouts.curriculum.services.evaluations import settle_evaluation
from rollouts.curriculum.services.failure_budget import (
    end_outages,
    failures_of,
    stored_failures,
)
from rollouts.curriculum.services.lessons import (
    ACTOR,
    locked_rows,
    move,
    progress_of_lessons,
    stop_lesson,
    store_changes,
)
from rollouts.curriculum.services.problems import lose_problems
from rollouts.lessons.rules import evaluation as evaluation_rules
from rollouts.lessons.rules.failures import Failures
from rollouts.lessons.rules.lessons import Counts, LessonStatus, Progress
from rollouts.lessons.rules.strategy import Change
from rollouts.metrics.services.metrics import Figure, InvalidMetrics, store_figures
from runs.config.rules.failure_budget import Cause
from runs.events.services import record_event
from runs.lifecycle.models import Run
from web.live.announcements import announce
from web.rules.errors import InvalidField, NotFound

logger = logging.getLogger(__name__)

REPEATED_WITHIN: Final = timedelta(hours=1)
"""Minimum retention of outcomes, so that a repeated outcome does not count twice."""
ANSWERS_AT_MOST: Final = 8
"""Sample answers kept of one micro-evaluation."""
WITH_ANSWERS: Final = 20
"""Micro-evaluations of a lesson that keep their answers."""
# Names of series, with the success as a rate, and tokens and truncated answers per answer:
# - `rollout/<lesson>/…` and `env/<lesson>/<metric>` of training tasks,
# - `eval/<lesson>/…` and `eval/<lesson>/env/<metric>` of evaluations, with the bounds of the
#   success and pass@k for each k > 1,
# - `micro_eval/<lesson>/…` and `micro_eval/<lesson>/env/<metric>` of micro-evaluations.
_PREFIXES: Final = {"train": "rollout", "eval": "eval", "micro_eval": "micro_eval"}
REPEAT_ERROR_AFTER: Final = timedelta(minutes=1)
"""Interval between two events about a lesson that fails repeatedly."""
# Excludes the performance in the other mode, which is long, and the counters of tasks.
_WRITTEN: Final = {field.attname for field in Lesson._meta.concrete_fields} - {  # noqa: SLF001
    *("id", "run_id", "name", "position", "examples", "training", "evaluation")
}


@transaction.atomic
def count_outcome(
    *, run_id: int, lesson: str, outcome: LessonOutcome, now: datetime
) -> OutcomeReceipt:
    """Count an outcome exactly once, and apply the status changes that follow.

    Outcomes of one lesson are serialized; those of different lessons run concurrently. Outcomes of
    another epoch than the run's, and of micro-evaluations, are only logged.

    Raises:
        NoCurriculum: If the run has no lessons.
        NotFound: If it has none of this name.
        InvalidField: If the outcome is inconsistent.
        NotFound: If the lesson has no such evaluation.
        EvaluationLeaseLost: If the evaluation was leased again, or finished.
    """
    curriculum = curriculum_of(run_id)
    if lesson not in curriculum.lessons:
        raise NotFound(f"the run has no lesson {lesson!r}")
    evaluation = _check(outcome, curriculum)
    rows = locked_rows(run_id, lesson, curriculum)
    run = Run.objects.only("epoch", "policy_step").get(pk=run_id)
    is_counted = outcome.mode != "micro_eval" and outcome.epoch == run.epoch
    failures = failures_of(outcome)
    if not _store(run_id, lesson, outcome, failures, is_counted=is_counted, now=now):
        return OutcomeReceipt(is_new=False)
    if outcome.mode == "micro_eval":
        # Only the newest micro-evaluations of a lesson keep their answers.
        logged = OutcomeRow.objects.filter(run_id=run_id, lesson=lesson, mode="micro_eval")
        older = logged.order_by("-pk").values_list("pk", flat=True)[WITH_ANSWERS : WITH_ANSWERS + 1]
        logged.filter(pk__in=list(older)).exclude(answers=[]).update(answers=[])
    row = rows[lesson]
    row.outcomes += 1
    if outcome.error:
        _record_error(row, outcome, run, curriculum, now=now)
    losses = RolloutLosses(
        failed=outcome.failed, refilled=outcome.refilled, lost_siblings=outcome.lost_siblings
    )
    if outcome.mode == "train":
        row.failed += sum(outcome.failed.values())
        row.refilled += outcome.refilled
        row.lost_siblings += outcome.lost_siblings
        row.pass_size = outcome.pass_size or row.pass_size
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
        rows[name].save(
            update_fields=_WRITTEN | {"training" if outcome.mode == "train" else "evaluation"}
        )
    announce(run_id, "curriculum")
    if outcome.lost_problems:
        lose_problems(
            run_id,
            lesson,
            outcome.lost_problems,
            worker=outcome.worker,
            error=outcome.error,
            now=now,
        )
    if outcome.mode == "train" and losses:
        record_losses(
            run_id, losses, _short_groups(run_id, lesson, outcome, now=now), epoch=outcome.epoch
        )
        announce(run_id, "ledger")
    _follow_up(run_id, lesson, outcome, failures, now=now)
    return OutcomeReceipt(is_new=True, changes=[str(one) for one in made])


def _follow_up(
    run_id: int,
    lesson: str,
    outcome: LessonOutcome,
    failures: Mapping[Cause, Failures],
    *,
    now: datetime,
) -> None:
    """End outages and store series after the commit, which holds lessons but neither of these."""
    rollouts = len(outcome.rewards)
    end = partial(end_outages, run_id, lesson, rollouts=rollouts, failures=failures, now=now)
    transaction.on_commit(end, robust=True)
    store = partial(store_outcome_metrics, run_id, lesson, outcome, now=now)
    transaction.on_commit(store, robust=True)


def _short_groups(
    run_id: int, lesson: str, outcome: LessonOutcome, *, now: datetime
) -> list[ShortGroup]:
    return [
        ShortGroup(
            run_id=run_id,
            at=now,
            environment=lesson,
            example=one.example,
            prompt=one.prompt,
            failed=one.failed,
            rewards=one.rewards,
            tokens=one.tokens,
            refilled=one.refilled,
            is_kept=one.is_kept,
        )
        for one in outcome.short_groups
    ]


def _check(outcome: LessonOutcome, curriculum: RunCurriculum) -> UUID | None:
    """Return the id of the outcome's evaluation, if it belongs to one."""
    count = len(outcome.rewards)
    if len(outcome.successes) != count:
        raise InvalidField("successes", f"{len(outcome.successes)} successes for {count} rewards")
    if outcome.sizes:
        if outcome.mode == "eval":
            raise InvalidField("sizes", "evaluations have the same number of answers per problem")
        if sum(outcome.sizes) != count:
            raise InvalidField("sizes", f"{count} rewards, not the sum {sum(outcome.sizes)}")
    elif count % outcome.generations:
        raise InvalidField("rewards", f"{count} is not a multiple of {outcome.generations} answers")
    if outcome.mode != "eval":
        return None
    expected = curriculum.language.evaluation.generations
    if count and outcome.generations != expected:
        raise InvalidField("generations", f"evaluations of this run require {expected}")
    try:
        return UUID(outcome.evaluation)
    except ValueError:
        raise InvalidField("evaluation", "must be the id of a leased evaluation") from None


def _store(
    run_id: int,
    lesson: str,
    outcome: LessonOutcome,
    failures: Mapping[Cause, Failures],
    *,
    is_counted: bool,
    now: datetime,
) -> bool:
    """Store the outcome under its key; return False if the key exists."""
    count = len(outcome.rewards)
    answers = outcome.samples[:ANSWERS_AT_MOST] if outcome.mode == "micro_eval" else []
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
            "failures": stored_failures(failures),
            "answers": msgspec.to_builtins(answers),
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
    progress = evaluation_rules.counted(all_progress[row.name], outcome, round_number=round_number)
    if outcome.mode == "eval":
        row.evaluation = pack(progress.evaluation)
    else:
        row.training = pack(progress.training)
        row.samples += len(outcome.rewards)
        row.groups += len(outcome.sizes) or len(outcome.rewards) // outcome.generations
        row.zero_variance_groups += outcome.zero_variance_groups
        row.tokens += outcome.tokens
        row.truncated += outcome.truncated
        row.duplicates += outcome.duplicates
    all_progress[row.name] = progress
    weigh(row, progress, curriculum)


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


def store_outcome_metrics(
    run_id: int, lesson: str, outcome: LessonOutcome, *, now: datetime
) -> None:
    """Store the figures of a new outcome as samples at its policy version.

    If the run has too many series, they are not stored, and the outcome still counts.
    """
    count = len(outcome.rewards)
    if not count:
        return
    prefix = f"{_PREFIXES[outcome.mode]}/{lesson}"
    own = f"env/{lesson}" if outcome.mode == "train" else f"{prefix}/env"
    values = {
        f"{prefix}/success": sum(outcome.successes) / count,
        f"{prefix}/reward": sum(outcome.rewards) / count,
        f"{prefix}/tokens": outcome.tokens / count,
        f"{prefix}/truncated_share": outcome.truncated / count,
    }
    if outcome.length_p95:
        values[f"{prefix}/length_p95"] = outcome.length_p95
    if outcome.seconds > 0:
        values[f"{prefix}/tokens_per_second"] = outcome.tokens / outcome.seconds
    if outcome.mode == "train":
        failed = sum(outcome.failed.values())
        sizes = outcome.sizes or [outcome.generations] * (count // outcome.generations)
        values |= {
            f"{prefix}/failed_share": failed / (count + failed),
            f"{prefix}/reward_deviation": evaluation_rules.deviation_in_groups(
                outcome.rewards, sizes
            ),
            f"{prefix}/zero_variance_share": outcome.zero_variance_groups / len(sizes),
            f"{prefix}/duplicate_share": outcome.duplicates / count,
        }
    if outcome.mode == "eval":
        found = evaluation_rules.figures_of(
            outcome.rewards, outcome.successes, generations=outcome.generations
        )
        values |= {
            f"{prefix}/success/low": found.success.low,
            f"{prefix}/success/high": found.success.high,
        }
        values |= {f"{prefix}/pass_at/{k}": rate for k, rate in found.pass_at.items() if k > 1}
    values |= {f"{own}/{name}": value for name, value in outcome.metrics.items()}
    step = max(0, outcome.policy_step)
    figures = [Figure(name, step, value) for name, value in values.items()]
    try:
        store_figures(run_id=run_id, figures=figures, now=now)
    except InvalidMetrics as full:
        logger.warning("metrics of lesson %s were not stored: %s", lesson, full.message)


def delete_old_outcomes(*, now: datetime) -> int:
    """Delete outcomes beyond the retention time or the total limit; return their number.

    The progress of lessons is kept.
    """
    settled = OutcomeRow.objects.filter(at__lt=now - REPEATED_WITHIN)
    forgotten = 0
    if settings.ROLLDECK_OUTCOME_SECONDS:
        oldest = now - timedelta(seconds=settings.ROLLDECK_OUTCOME_SECONDS)
        forgotten += settled.filter(at__lt=oldest).delete()[0]
    newest = OutcomeRow.objects.aggregate(newest=Max("pk"))["newest"]
    if settings.ROLLDECK_OUTCOME_ROWS and newest is not None:
        # Ids rise by one per row, so no count is needed.
        last = newest - settings.ROLLDECK_OUTCOME_ROWS
        forgotten += settled.filter(pk__lte=last).delete()[0]
    return forgotten
