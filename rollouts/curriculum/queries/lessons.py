"""Queries about a run's lessons for pages."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When

from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemState
from buffer.problems.models import LessonProblem
from buffer.problems.rules import UNFINISHED, ProblemState
from rolldeck.lessons import Sample
from rollouts.control.models import FleetWorker
from rollouts.curriculum.models import (
    OPEN_EVALUATIONS,
    STOPPED,
    Curriculum,
    Evaluation,
    Lesson,
    LessonChange,
    LessonOutcome,
)
from rollouts.curriculum.queries.curricula import (
    NoCurriculum,
    RunCurriculum,
    curriculum_of,
    first_rows,
)
from rollouts.curriculum.rules import reweighted
from rollouts.curriculum.schemas import (
    CurriculumSummary,
    EvaluationRow,
    Evaluations,
    LessonChangeRow,
    LessonHistory,
    LessonPass,
    LessonPasses,
    LessonProblemRow,
    LessonProblems,
    LessonRequirement,
    LessonRow,
    Lessons,
    MicroEvaluationRow,
    MicroEvaluations,
)
from rollouts.lessons.rules.evaluation import EvaluationFigures, Interval, pass_intervals, wilson
from rollouts.lessons.rules.lessons import LessonStatus
from rollouts.lessons.rules.strategy import concentration, draw_probabilities
from runs.config.rules.language_config import RequirementConfig
from runs.lifecycle.models import Run
from runs.lifecycle.rules import TERMINAL
from web.rules.errors import NotFound
from web.rules.pages import PageRequest

LESSON_ROWS_AT_MOST: Final = 500
MOST_WITH_SAMPLES: Final = 20
EvaluationPosition = tuple[int, int, UUID]
"""Round, position in the round, and id."""
_NO_REQUESTS: Final = ("stopped", "failed", "respawning")
_LONG: Final = ("training", "evaluation", "last_evaluation__samples")


def lessons(run_id: int) -> Lessons:
    """Return the lessons of a run.

    Raises:
        NoCurriculum: If it has none.
    """
    curriculum = curriculum_of(run_id)
    rows = _rows(run_id, curriculum)
    shares = _shares(rows, curriculum)
    by_name = {row.name: row for row in rows}
    unlock_rule = getattr(curriculum.strategy, "unlock_rule", None)
    same = (
        *("name", "status", "changed_at", "has_regressed", "success", "examples", "samples"),
        "pass_size",
        *("hold", "weight_factor", "steered_by", "steered_reason", "steered_at"),
        *("errors", "last_error", "failed", "refilled", "lost_siblings"),
    )
    results = []
    for row in rows:
        config, lesson = curriculum.language.lessons[row.name], curriculum.lessons[row.name]
        result = LessonRow(
            **{name: getattr(row, name) for name in same},
            spec=config.spec,
            requires=[
                LessonRequirement(lesson=one.lesson, min_success=one.min_success)
                for one in config.requires
            ],
            stop_success=config.stop_success,
            short_groups=curriculum.language.short_group_rule(row.name).policy,
            reason=_status_reason(row, by_name, config.requires),
            unlock_rule=str(unlock_rule(lesson)) if unlock_rule and lesson.requires else "",
            probability=shares.get(row.name, 0.0),
            zero_variance_share=_share(row.zero_variance_groups, row.groups),
            truncated_share=_share(row.truncated, row.samples),
            duplicate_share=_share(row.duplicates, row.samples),
            tokens_mean=_share(row.tokens, row.samples),
            evaluation=_evaluation_row(row.last_evaluation, []) if row.last_evaluation else None,
        )
        results.append(result)
    summary = _summary(run_id, rows, shares, curriculum)
    return Lessons(summary=summary, results=results, next=None)


def curriculum_part(run_id: int) -> CurriculumSummary | None:
    """Return the summary for the live page; None for a run without lessons."""
    try:
        curriculum = curriculum_of(run_id)
    except NoCurriculum:
        return None
    rows = _rows(run_id, curriculum)
    return _summary(run_id, rows, _shares(rows, curriculum), curriculum)


def lesson_changes(run_id: int, *, lesson: str, page: PageRequest[int]) -> LessonHistory:
    """Return status changes of lessons, newest first; of all lessons if none is named."""
    found = LessonChange.objects.filter(run_id=run_id).order_by("-pk")
    if lesson:
        found = found.filter(lesson=lesson)
    if page.after is not None:
        found = found.filter(pk__lt=page.after)
    rows, cursor = page.cut(found[: page.limit + 1], lambda row: row.pk)
    names = LessonChangeRow.__struct_fields__
    results = [LessonChangeRow(**{name: getattr(row, name) for name in names}) for row in rows]
    return LessonHistory(results=results, next=cursor)


def lesson_passes(run_id: int, *, lesson: str, page: PageRequest[int]) -> LessonPasses:
    """Return the passes over a lesson, newest first.

    Raises:
        NotFound: If the run has no lesson of this name.
    """
    size, assigned = _extent(run_id, lesson)
    newest = max(0, assigned - 1) // size if size else 0
    begins = newest if page.after is None else page.after - 1
    numbers = list(range(begins, max(-1, begins - page.limit - 1), -1))
    shown, cursor = page.cut(numbers, lambda number: number)
    rows = LessonProblem.objects.filter(run_id=run_id, lesson=lesson)
    if size and shown:
        rows = rows.filter(number__gte=shown[-1] * size, number__lt=(shown[0] + 1) * size)
    place = F("number") / size if size else Value(0)
    found = _as_of_now(rows, run_id).annotate(place=place).values_list("place", "now", "why")
    counts: dict[tuple[int, str], int] = {}
    skipped: dict[int, dict[str, int]] = {}
    for at, state, why, count in found.annotate(count=Count("pk")).order_by():
        counts[at, state] = counts.get((at, state), 0) + count
        if why:
            skipped.setdefault(at, {})[why] = count
    return LessonPasses(
        results=[
            LessonPass(
                number=number,
                size=size or assigned,
                unassigned=max(0, (number + 1) * size - assigned),
                leased=counts.get((number, ProblemState.LEASED), 0),
                returned=counts.get((number, ProblemState.RETURNED), 0),
                answered=counts.get((number, ProblemState.ANSWERED), 0),
                trained=counts.get((number, ProblemState.TRAINED), 0),
                skipped=skipped.get(number, {}),
            )
            for number in shown
        ],
        next=cursor,
    )


def _as_of_now(rows: "QuerySet[LessonProblem]", run_id: int) -> "QuerySet[LessonProblem]":
    """Annotate problems with their state `now` and its reason `why`.

    The state of an answered problem follows its group with a delay, and not after the end of its
    run.
    """
    group = TrajectoryGroup.objects.filter(pk=OuterRef("group"))
    is_answered = Q(state=ProblemState.ANSWERED)
    is_served = is_answered & Exists(group.filter(state=ItemState.SERVED))
    is_dropped = is_answered & Exists(group.filter(state=ItemState.DROPPED))
    is_over = Run.objects.filter(pk=run_id, status__in=TERMINAL).exists()
    is_unfinished = Q(state__in=UNFINISHED) if is_over else Q(pk__in=[])
    return rows.annotate(
        now=Case(
            When(is_served, then=Value(str(ProblemState.TRAINED))),
            When(is_dropped | is_unfinished, then=Value(str(ProblemState.SKIPPED))),
            default=F("state"),
        ),
        why=Case(
            When(is_dropped, then=Subquery(group.values("drop_reason")[:1])),
            When(is_unfinished, then=Value("run_ended")),
            When(state=ProblemState.SKIPPED, then=F("reason")),
            default=Value(""),
        ),
    )


def lesson_problems(
    run_id: int, *, lesson: str, state: str, page: PageRequest[int]
) -> LessonProblems:
    """Return assigned problems of a lesson, newest first; of all states if `state` is empty.

    Raises:
        NotFound: If the run has no lesson of this name.
    """
    size, _ = _extent(run_id, lesson)
    found = LessonProblem.objects.filter(run_id=run_id, lesson=lesson).order_by("-pk")
    if state:
        found = found.filter(state=state)
    if page.after is not None:
        found = found.filter(pk__lt=page.after)
    rows, cursor = page.cut(found[: page.limit + 1], lambda row: row.pk)
    names = set(LessonProblemRow.__struct_fields__) - {"pass_number"}
    results = [
        LessonProblemRow(
            pass_number=row.number // size if size else 0,
            **{name: getattr(row, name) for name in names},
        )
        for row in rows
    ]
    return LessonProblems(results=results, next=cursor)


def _extent(run_id: int, lesson: str) -> tuple[int, int]:
    """Return the problems of a pass, and the number of assigned ones."""
    rows = Lesson.objects.filter(run_id=run_id, name=lesson)
    found = rows.values_list("pass_size", "examples").first()
    if found is None and lesson not in curriculum_of(run_id).lessons:
        raise NotFound(f"the run has no lesson {lesson!r}")
    return found or (0, 0)


def evaluations(
    run_id: int, *, lesson: str, page: PageRequest[EvaluationPosition], with_samples: int
) -> Evaluations:
    """Return evaluations, newest first; the newest finished ones include answers."""
    found = Evaluation.objects.filter(run_id=run_id).order_by("-round", "position", "pk")
    if lesson:
        found = found.filter(lesson=lesson)
    done = list(found.filter(state="done").values_list("pk", flat=True)[:with_samples])
    samples = dict(Evaluation.objects.filter(pk__in=done).values_list("pk", "samples"))
    if page.after is not None:
        number, position, pk = page.after
        found = found.filter(
            Q(round__lt=number)
            | Q(round=number, position__gt=position)
            | Q(round=number, position=position, pk__gt=pk)
        )
    rows, cursor = page.cut(
        found.defer("samples")[: page.limit + 1], lambda row: (row.round, row.position, row.pk)
    )
    return Evaluations(
        results=[_evaluation_row(row, samples.get(row.pk, [])) for row in rows], next=cursor
    )


def evaluation(run_id: int, evaluation_id: UUID) -> EvaluationRow:
    """Return one evaluation with its answers.

    Raises:
        NotFound: If the run has none with this id.
    """
    row = Evaluation.objects.filter(run_id=run_id, pk=evaluation_id).first()
    if row is None:
        raise NotFound(f"the run has no evaluation {evaluation_id}")
    return _evaluation_row(row, row.samples)


def _rows(run_id: int, curriculum: RunCurriculum) -> list[Lesson]:
    """Return the lessons in order, without long fields; in their initial state if none was used."""
    stored: QuerySet[Lesson] = Lesson.objects.filter(run_id=run_id).select_related(
        "last_evaluation"
    )
    return list(stored.defer(*_LONG).order_by("position")) or first_rows(run_id, curriculum)


def _shares(rows: list[Lesson], curriculum: RunCurriculum) -> dict[str, float]:
    active = {row.name: row.weight for row in rows if row.status == LessonStatus.ACTIVE}
    learnt = [row.name for row in rows if row.status == LessonStatus.GRADUATED]
    if not active and not learnt:
        return {}
    shares = draw_probabilities(curriculum.strategy, active, graduated=learnt)
    return reweighted(shares, {row.name: row.weight_factor for row in rows})


def _summary(
    run_id: int, rows: list[Lesson], shares: dict[str, float], curriculum: RunCurriculum
) -> CurriculumSummary:
    row = Curriculum.objects.filter(run_id=run_id).first() or Curriculum(run_id=run_id)
    waiting = Evaluation.objects.filter(run_id=run_id, state__in=OPEN_EVALUATIONS)
    counts = {status: sum(one.status == status for one in rows) for status in LessonStatus}
    successes = [one.success for one in rows if one.status == LessonStatus.ACTIVE]
    spread = concentration(shares)
    # Running workers that have not requested a task since the last steering.
    awaited = []
    if row.awaited:
        running = requesting_workers(FleetWorker.objects.filter(fleet__run_id=run_id))
        awaited = [worker for worker in running if worker in row.awaited]
    return CurriculumSummary(
        revision=sum(one.outcomes for one in rows)
        + row.round
        + row.steerings
        + (row.completed_at is not None),
        strategy=curriculum.language.strategy,
        locked=counts[LessonStatus.LOCKED],
        active=counts[LessonStatus.ACTIVE],
        graduated=counts[LessonStatus.GRADUATED],
        tasks=row.tasks,
        round=row.round,
        evaluations_open=waiting.count(),
        completed_at=row.completed_at,
        entropy=spread.entropy,
        effective_lessons=spread.effective_lessons,
        mean_success=sum(successes) / len(successes) if successes else None,
        steered=sum(one.hold not in {"", STOPPED} or one.weight_factor != 1 for one in rows),
        stopped=sum(one.hold == STOPPED for one in rows),
        awaited=awaited,
    )


def requesting_workers(workers: QuerySet[FleetWorker]) -> list[str]:
    """Return the names under which workers request tasks."""
    there = workers.exclude(state__in=_NO_REQUESTS).exclude(incarnation="").order_by("index")
    found = there.values_list("index", "incarnation")
    return [f"w{index}@{incarnation}" for index, incarnation in found]


def _status_reason(
    row: Lesson, rows: dict[str, Lesson], required: Sequence[RequirementConfig]
) -> str:
    """Return the reason of a lesson's status."""
    if row.reason:
        return row.reason
    if row.status != LessonStatus.LOCKED:
        return "requires nothing"
    unlearnt = [one for one in required if rows[one.lesson].status != LessonStatus.GRADUATED]
    shown = []
    for requirement in unlearnt or required:
        needed = rows[requirement.lesson]
        goal = f" of {requirement.min_success:g}" if requirement.min_success else ""
        progress = f"success {needed.success:.2f}{goal}" if needed.samples else "not tried yet"
        shown.append(f"{needed.name} ({needed.status}, {progress})")
    return f"requires {', '.join(shown)}"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _evaluation_row(row: Evaluation, samples: list[dict[str, Any]]) -> EvaluationRow:
    same = (
        *("lesson", "round", "state", "epoch", "due_step", "policy_step"),
        *("created_at", "finished_at", "worker", "attempts", "reason"),
    )
    figures = msgspec.convert(row.figures, EvaluationFigures, strict=False) if row.figures else None
    return EvaluationRow(
        id=str(row.pk),
        **{name: getattr(row, name) for name in same},
        figures=figures,
        pass_at=pass_intervals(figures) if figures else {},
        samples=msgspec.convert(samples, list[Sample]),
    )


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
    results = [
        MicroEvaluationRow(
            id=row.pk,
            at=row.at,
            epoch=row.epoch,
            policy_step=row.policy_step,
            worker=row.worker,
            samples=row.samples,
            successes=row.successes,
            success=Interval(row.successes / row.samples, *wilson(row.successes, row.samples))
            if row.samples
            else None,
            reward_mean=row.reward_mean,
            error=row.error,
            answers=msgspec.convert(answers.get(row.pk, []), list[Sample]),
        )
        for row in rows
    ]
    return MicroEvaluations(results=results, next=cursor)
