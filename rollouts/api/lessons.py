"""Give workers of language runs their tasks, take their outcomes, and show lessons."""

from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from rolldeck.lessons import (
    LeaseRenewal,
    LeaseRenewed,
    LessonOutcome,
    OutcomeReceipt,
    RolloutTask,
    TaskRequest,
)
from rollouts import selectors, services
from rollouts.wire import (
    EvaluationRequest,
    EvaluationRow,
    Evaluations,
    LessonHistory,
    LessonProgress,
    Lessons,
    LessonSteering,
    MicroEvaluations,
)
from runs.api import bodies
from runs.api.identity import identity_of
from runs.api.openapi import problems
from runs.api.permissions import Operators, Readers, scoped
from runs.selectors import run_id_named

ROWS: Final = 100
BUCKETS: Final = 60

_LESSON = OpenApiParameter("lesson", str, description="Only of this lesson.")
_LIMIT = OpenApiParameter(
    "limit",
    int,
    description=f"Rows at most; 1 to {selectors.LESSON_ROWS_AT_MOST}, {ROWS} if absent.",
)


class LessonsView(APIView):
    """The lessons of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lessons",
        responses={200: Lessons, **problems(401, 403, 404, 409)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return the lessons of a language run, none before what it requires."""
        return bodies.answer(selectors.lessons(run_id_named(run)))


class LessonTasksView(APIView):
    """What workers are to do next."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="lesson_task",
        request=TaskRequest,
        responses={200: RolloutTask, **problems(400, 401, 403, 404, 409)},
        tags=["lessons"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Give a worker a due evaluation, or else a lesson to sample; or say why to wait."""
        wanted = bodies.read(request, TaskRequest)
        task = services.next_lesson_task(
            run_id=run_id_named(run), request=wanted, now=timezone.now()
        )
        return bodies.answer(task)


class LessonOutcomesView(APIView):
    """How rollouts of a lesson ended."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="lesson_outcome",
        request=LessonOutcome,
        responses={200: OutcomeReceipt, **problems(400, 401, 403, 404, 409)},
        tags=["lessons"],
    )
    def post(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """Count an outcome once, however often it is sent; say which lessons moved."""
        outcome = bodies.read(request, LessonOutcome)
        receipt = services.take_outcome(
            run_id=run_id_named(run), lesson=lesson, outcome=outcome, now=timezone.now()
        )
        return bodies.answer(receipt)


class LessonSteeringView(APIView):
    """What a person wants of a lesson, whatever the curriculum says."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="lesson_steer",
        request=LessonSteering,
        responses={200: Lessons, **problems(400, 401, 403, 404, 409)},
        tags=["lessons"],
    )
    def put(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """Hold a lesson locked or active and weigh it anew, or give it back to the curriculum."""
        wanted, run_id = bodies.read(request, LessonSteering), run_id_named(run)
        services.steer_lesson(
            run_id=run_id,
            lesson=lesson,
            wanted=wanted,
            actor=identity_of(request),
            now=timezone.now(),
        )
        return bodies.answer(selectors.lessons(run_id))


class MicroEvaluationsView(APIView):
    """Small looks at a lesson beside its training."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lesson_micro_evaluations",
        parameters=[_LIMIT],
        responses={200: MicroEvaluations, **problems(400, 401, 403, 404)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str, lesson: str) -> HttpResponse:
        """Return the micro-evaluations of a lesson, newest first; they move no lesson."""
        rows = selectors.micro_evaluations(
            run_id_named(run), lesson=lesson, limit=_limit_of(request)
        )
        return bodies.answer(MicroEvaluations(results=rows))


class LessonHistoryView(APIView):
    """How lessons moved."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lesson_history",
        parameters=[_LESSON, _LIMIT],
        responses={200: LessonHistory, **problems(400, 401, 403, 404)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return what unlocked, graduated and came back, newest first, with the reasons."""
        rows = selectors.lesson_changes(
            run_id_named(run), lesson=_lesson_of(request), limit=_limit_of(request)
        )
        return bodies.answer(LessonHistory(results=rows))


class LessonProgressView(APIView):
    """How the training of lessons went."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="lesson_progress",
        parameters=[
            OpenApiParameter(
                "buckets",
                int,
                description=f"Of versions, about; 1 to {selectors.BUCKETS_AT_MOST}, "
                f"{BUCKETS} if absent.",
            )
        ],
        responses={200: LessonProgress, **problems(400, 401, 403, 404, 409)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return what was sampled of each lesson and succeeded, by version of this epoch.

        Of the newest tasks, as far back as `ROLLDECK_OUTCOME_SECONDS` keeps them.
        """
        buckets = bodies.whole_number(
            request,
            "buckets",
            default=BUCKETS,
            at_least=1,
            at_most=selectors.BUCKETS_AT_MOST,
        )
        found = selectors.lesson_progress(run_id_named(run), buckets=buckets or BUCKETS)
        return bodies.answer(found)


class EvaluationsView(APIView):
    """Evaluations of lessons."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return who may do what: operators ask for evaluations, everybody of the run looks."""
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="evaluations",
        parameters=[
            _LESSON,
            _LIMIT,
            OpenApiParameter(
                "samples",
                int,
                description="How many of the newest results bring answers to look at; 0 to "
                f"{selectors.MOST_WITH_SAMPLES}, 1 if absent.",
            ),
        ],
        responses={200: Evaluations, **problems(400, 401, 403, 404)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return evaluations, newest first."""
        with_samples = bodies.whole_number(
            request, "samples", default=1, at_least=0, at_most=selectors.MOST_WITH_SAMPLES
        )
        rows = selectors.evaluations(
            run_id_named(run),
            lesson=_lesson_of(request),
            limit=_limit_of(request),
            with_samples=with_samples or 0,
        )
        return bodies.answer(Evaluations(results=rows))

    @extend_schema(
        operation_id="evaluations_request",
        request=EvaluationRequest,
        responses={201: Evaluations, **problems(400, 401, 403, 404, 409)},
        tags=["lessons"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Have lessons evaluated at the present version; return the newest evaluations."""
        wanted, run_id = bodies.read(request, EvaluationRequest), run_id_named(run)
        services.request_evaluations(
            run_id=run_id,
            lessons=wanted.lessons,
            actor=identity_of(request),
            reason=wanted.reason,
            now=timezone.now(),
        )
        rows = selectors.evaluations(run_id, lesson="", limit=ROWS, with_samples=0)
        return bodies.answer(Evaluations(results=rows), status=201)


class EvaluationView(APIView):
    """One evaluation of a lesson."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="evaluation",
        responses={200: EvaluationRow, **problems(401, 403, 404)},
        tags=["lessons"],
    )
    def get(self, request: Request, run: str, evaluation: UUID) -> HttpResponse:
        """Return an evaluation with answers to look at, however long ago it was."""
        return bodies.answer(selectors.evaluation(run_id_named(run), evaluation))


class EvaluationLeaseView(APIView):
    """The lease of an evaluation that a worker is at."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="evaluation_lease",
        request=LeaseRenewal,
        responses={200: LeaseRenewed, **problems(400, 401, 403, 404, 409)},
        tags=["lessons"],
    )
    def put(self, request: Request, run: str, evaluation: UUID) -> HttpResponse:
        """Let the worker with this fence keep the evaluation for a while longer."""
        wanted = bodies.read(request, LeaseRenewal)
        seconds = services.renew_evaluation(
            run_id=run_id_named(run), evaluation=evaluation, fence=wanted.fence
        )
        return bodies.answer(LeaseRenewed(seconds=seconds))


def _lesson_of(request: Request) -> str:
    lesson = request.query_params.get("lesson", "")
    if "\x00" in lesson:
        raise bodies.InvalidBody("lesson", "must not contain the NUL character")
    return lesson


def _limit_of(request: Request) -> int:
    limit = bodies.whole_number(
        request, "limit", default=ROWS, at_least=1, at_most=selectors.LESSON_ROWS_AT_MOST
    )
    return limit or 1
