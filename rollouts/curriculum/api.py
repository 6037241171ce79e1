"""API of lessons: tasks, outcomes, evaluations and steering."""

from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from buffer.problems.rules import ProblemState
from rolldeck.lessons import (
    LeaseRenewal,
    LeaseRenewed,
    LessonOutcome,
    OutcomeReceipt,
    RolloutTask,
    TaskRequest,
)
from rollouts.curriculum.queries import lessons as queries_lessons
from rollouts.curriculum.queries.lessons import (
    LESSON_ROWS_AT_MOST,
    MOST_WITH_SAMPLES,
    EvaluationPosition,
    evaluations,
    lesson_changes,
    lesson_passes,
    lesson_problems,
    lessons,
    micro_evaluations,
)
from rollouts.curriculum.schemas import (
    EvaluationRequest,
    EvaluationRow,
    Evaluations,
    LessonHistory,
    LessonPasses,
    LessonProblems,
    Lessons,
    LessonSteering,
    MicroEvaluations,
)
from rollouts.curriculum.services.evaluations import renew_evaluation, request_evaluations
from rollouts.curriculum.services.outcomes import count_outcome
from rollouts.curriculum.services.steering import steer_lesson
from rollouts.curriculum.services.tasks import next_lesson_task
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers, scoped
from runs.lifecycle.queries import readable_run_id, run_id_named
from web.http import bodies
from web.http.openapi import between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.rules.pages import PageRequest

ROWS: Final = 100

_LESSON = OpenApiParameter("lesson", str, description="Only this lesson.")
_PAGE = page_parameters(default=ROWS, most=LESSON_ROWS_AT_MOST)
_STATE = OpenApiParameter("state", enum=list(ProblemState), description="Only this state.")
_SAMPLES = OpenApiParameter(
    "samples",
    between(0, MOST_WITH_SAMPLES),
    description="Number of newest results with sample answers: 0 to "
    f"{MOST_WITH_SAMPLES}, default 1.",
)


class LessonsView(ApiView):
    """The lessons of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lessons_list", responses={200: Lessons, **problems(409)}, tags=["lessons"]
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List lessons.

        In topological order of their requirements; empty before the run has registered them.
        """
        return bodies.answer(lessons(readable_run_id(run)))


class LessonTasksView(ApiView):
    """Next tasks of workers."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="lesson_task",
        request=TaskRequest,
        responses={200: RolloutTask, **problems(409)},
        tags=["lessons"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Get the next lesson task.

        A due evaluation, otherwise a lesson to sample, otherwise the reason to wait.
        """
        body = bodies.read(request, TaskRequest)
        task = next_lesson_task(run_id=run_id_named(run), request=body, now=timezone.now())
        return bodies.answer(task)


class LessonOutcomesView(ApiView):
    """Outcomes of a lesson's rollouts."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="lesson_outcome",
        request=LessonOutcome,
        responses={200: OutcomeReceipt, **problems(409)},
        tags=["lessons"],
    )
    def post(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """Report a lesson outcome.

        A repeated report is counted once. Returns the lessons that changed state.
        """
        outcome = bodies.read(request, LessonOutcome)
        receipt = count_outcome(
            run_id=run_id_named(run), lesson=lesson, outcome=outcome, now=timezone.now()
        )
        return bodies.answer(receipt)


class LessonSteeringView(ApiView):
    """Manual control of a lesson."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="lesson_steer",
        request=LessonSteering,
        responses={200: Lessons, **problems(409)},
        tags=["lessons"],
    )
    def put(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """Override a lesson's state.

        Locks or activates a lesson and sets its weight, or returns it to the curriculum.
        """
        body, run_id = bodies.read(request, LessonSteering), run_id_named(run)
        steer_lesson(
            run_id=run_id, lesson=lesson, body=body, actor=identity_of(request), now=timezone.now()
        )
        return bodies.answer(lessons(run_id))


class MicroEvaluationsView(ApiView):
    """Micro-evaluations of a lesson."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lesson_micro_evaluations",
        parameters=[*_PAGE, _SAMPLES],
        responses={200: MicroEvaluations},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """List a lesson's micro-evaluations.

        Newest first; they do not affect the curriculum.
        """
        page = page_of(request, int, default=ROWS, most=LESSON_ROWS_AT_MOST)
        found = micro_evaluations(
            readable_run_id(run), lesson=lesson, page=page, with_samples=_with_samples(request)
        )
        return bodies.answer(found)


class LessonPassesView(ApiView):
    """Passes over a lesson."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lesson_passes",
        parameters=[*_PAGE],
        responses={200: LessonPasses, **problems(409)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """List the passes over a lesson.

        Newest first: how many of its problems were trained on, and why others were not.
        """
        page = page_of(request, int, default=ROWS, most=LESSON_ROWS_AT_MOST)
        return bodies.answer(lesson_passes(readable_run_id(run), lesson=lesson, page=page))


class LessonProblemsView(ApiView):
    """Assigned problems of a lesson."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lesson_problems",
        parameters=[*_PAGE, _STATE],
        responses={200: LessonProblems, **problems(409)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """List assigned problems of a lesson.

        Newest first.
        """
        page = page_of(request, int, default=ROWS, most=LESSON_ROWS_AT_MOST)
        state = bodies.text_parameter(request, "state", choices=list(ProblemState))
        found = lesson_problems(readable_run_id(run), lesson=lesson, state=state, page=page)
        return bodies.answer(found)


class LessonHistoryView(ApiView):
    """Status history of lessons."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lesson_history",
        parameters=[_LESSON, *_PAGE],
        responses={200: LessonHistory},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List lesson transitions.

        Newest first, with reasons.
        """
        page = page_of(request, int, default=ROWS, most=LESSON_ROWS_AT_MOST)
        found = lesson_changes(readable_run_id(run), lesson=_lesson_of(request), page=page)
        return bodies.answer(found)


class EvaluationsView(ApiView):
    """Evaluations of lessons."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permissions: operators request evaluations, all readers of the run read."""
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="evaluations_list",
        parameters=[_LESSON, *_PAGE, _SAMPLES],
        responses={200: Evaluations},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List evaluations.

        Newest first.
        """
        found = evaluations(
            readable_run_id(run),
            lesson=_lesson_of(request),
            page=_evaluation_page(request),
            with_samples=_with_samples(request),
        )
        return bodies.answer(found)

    @extend_schema(
        operation_id="evaluations_request",
        request=EvaluationRequest,
        responses={201: Evaluations, **problems(409)},
        tags=["lessons"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Request evaluations of lessons.

        Evaluates lessons at the current policy version; returns the newest evaluations.
        """
        body, run_id = bodies.read(request, EvaluationRequest), run_id_named(run)
        request_evaluations(
            run_id=run_id,
            lessons=body.lessons,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        found = evaluations(run_id, lesson="", page=_evaluation_page(request), with_samples=0)
        return bodies.answer(found, status=201)


class EvaluationView(ApiView):
    """One evaluation of a lesson."""

    permission_classes = [Readers]

    @extend_schema(operation_id="evaluations_get", responses={200: EvaluationRow}, tags=["lessons"])
    def get(self, request: Request, run: str, evaluation: UUID) -> HttpResponse:
        """Get an evaluation.

        With sample answers.
        """
        return bodies.answer(queries_lessons.evaluation(readable_run_id(run), evaluation))


class EvaluationLeaseView(ApiView):
    """Lease of a running evaluation."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="evaluations_renew_lease",
        request=LeaseRenewal,
        responses={200: LeaseRenewed, **problems(409)},
        tags=["lessons"],
    )
    def put(self, request: Request, run: str, evaluation: UUID) -> HttpResponse:
        """Renew an evaluation's lease.

        For the worker with the current fence.
        """
        body = bodies.read(request, LeaseRenewal)
        seconds = renew_evaluation(
            run_id=run_id_named(run), evaluation=evaluation, fence=body.fence
        )
        return bodies.answer(LeaseRenewed(seconds=seconds))


def _with_samples(request: Request) -> int:
    found = bodies.whole_number(
        request, "samples", default=1, at_least=0, at_most=MOST_WITH_SAMPLES
    )
    return found or 0


def _lesson_of(request: Request) -> str:
    lesson = request.query_params.get("lesson", "")
    if "\x00" in lesson:
        raise bodies.InvalidBody("lesson", "must not contain NUL")
    return lesson


def _evaluation_page(request: Request) -> PageRequest[EvaluationPosition]:
    return page_of(request, tuple[int, int, UUID], default=ROWS, most=LESSON_ROWS_AT_MOST)
