"""Queries for the training progress of a run's lessons by version."""

from typing import Any, Final

import msgspec
from django.db.models import Count, F, Max, Min, QuerySet, Sum

from rolldeck.lessons import Sample
from rollouts.curriculum.models import LessonOutcome
from rollouts.curriculum.queries.curricula import curriculum_of
from rollouts.curriculum.schemas import (
    LessonLine,
    LessonProgress,
    MicroEvaluationRow,
    MicroEvaluations,
)
from rollouts.lessons.rules.evaluation import Interval
from rollouts.lessons.rules.student import wilson
from runs.lifecycle.models import Run
from web.rules.pages import PageRequest

OUTCOMES_READ: Final = 100_000
"""Number of newest outcomes of a run that one query reads at most."""
CELLS_AT_MOST: Final = 20_000
"""Approximate number of lessons times buckets in an answer."""
BUCKETS_AT_MOST: Final = 200


def lesson_progress(
    run_id: int, *, buckets: int, outcomes_read: int = OUTCOMES_READ
) -> LessonProgress:
    """Return the samples of each lesson, and the number of successes.

    Covers counted training outcomes of the present epoch only, because versions restart with each.

    Args:
        run_id: Id of a language run.
        buckets: Approximate number, 1 to `BUCKETS_AT_MOST`; fewer if there are many lessons.
        outcomes_read: Maximum number of outcomes, the newest.

    Raises:
        NoCurriculum: If it is not a language run.
    """
    curriculum = curriculum_of(run_id)
    epoch = Run.objects.values_list("epoch", flat=True).get(pk=run_id)
    outcomes = LessonOutcome.objects.filter(run_id=run_id, epoch=epoch, mode="train", counted=True)
    seen = outcomes.order_by("-pk")[:outcomes_read].aggregate(
        count=Count("pk"), oldest=Min("pk"), first=Min("policy_step"), last=Max("policy_step")
    )
    count: int = seen["count"]
    if not count:
        return LessonProgress(
            epoch=epoch, bucket=1, outcomes=0, results=[], next=None, is_whole=True
        )
    many = max(1, min(buckets, BUCKETS_AT_MOST, CELLS_AT_MOST // len(curriculum.order)))
    # Buckets begin at multiples of their width, so that they stay in place.
    width = 1 + (seen["last"] - seen["first"]) // many
    lines = _lines(outcomes.filter(pk__gte=seen["oldest"]), width=width)
    return LessonProgress(
        epoch=epoch,
        bucket=width,
        outcomes=count,
        is_whole=count < outcomes_read,
        results=[lines[name] for name in curriculum.order if name in lines],
        next=None,
    )


def _lines(outcomes: QuerySet[LessonOutcome], *, width: int) -> dict[str, LessonLine]:
    """Return a line for each lesson that was sampled."""
    found = (
        outcomes.annotate(bucket=F("policy_step") / width)
        .values_list("lesson", "bucket")
        .annotate(episodes=Sum("samples"), succeeded=Sum("successes"))
        .order_by("bucket")
    )
    lines: dict[str, LessonLine] = {}
    for lesson, bucket, samples, successes in found:
        line = lines.setdefault(
            lesson, LessonLine(lesson=lesson, step=[], samples=[], successes=[])
        )
        line.step.append(bucket * width)
        line.samples.append(samples)
        line.successes.append(successes)
    return lines


def micro_evaluations(
    run_id: int, *, lesson: str, page: PageRequest[int], with_samples: int
) -> MicroEvaluations:
    """Return the micro-evaluations of a lesson, newest first; the newest ones include answers."""
    found = LessonOutcome.objects.filter(run_id=run_id, lesson=lesson, mode="micro_eval")
    shown = found.exclude(answers=[]).order_by("-pk").values_list("pk", "answers")[:with_samples]
    answers = dict(shown)
    if page.after is not None:
        found = found.filter(pk__lt=page.after)
    rows, cursor = page.cut(
        found.defer("answers").order_by("-pk")[: page.limit + 1], lambda row: row.pk
    )
    return MicroEvaluations(
        results=[_micro_row(row, answers.get(row.pk, [])) for row in rows], next=cursor
    )


def _micro_row(row: LessonOutcome, answers: list[dict[str, Any]]) -> MicroEvaluationRow:
    low, high = wilson(row.successes, row.samples)
    rate = row.successes / row.samples if row.samples else 0.0
    return MicroEvaluationRow(
        id=row.pk,
        at=row.at,
        epoch=row.epoch,
        policy_step=row.policy_step,
        worker=row.worker,
        samples=row.samples,
        successes=row.successes,
        success=Interval(rate, low, high) if row.samples else None,
        reward_mean=row.reward_mean,
        error=row.error,
        answers=msgspec.convert(answers, list[Sample]),
    )
