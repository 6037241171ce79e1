"""Answer fleets, trainers and pages about fleets, episodes and metrics."""

from typing import Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer import services as buffer_services
from rolldeck.wire import FleetControl, FleetReport
from rollouts import selectors, services
from rollouts.api.queries import wait_of
from rollouts.wire import Episodes, EpisodeSummary, FleetState, Metrics, MetricsPush, MetricsReceipt
from runs.api import bodies
from runs.api.openapi import problems
from runs.api.permissions import Readers, scoped
from runs.api.waiting import WaitingView
from runs.live.turns import Line
from runs.selectors import run_named

LONGEST_WAIT_SECONDS: Final = 30
_LONGEST_ID: Final = 2**63 - 1

_AFTER = OpenApiParameter("after", int, description="Only rows with a higher id, oldest first.")
_LIMIT = OpenApiParameter(
    "limit", int, description=f"Rows at most; 1 to {selectors.ROWS_AT_MOST}, 500 if absent."
)


class FleetView(APIView):
    """The fleet of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="fleet", responses={200: FleetState, **problems(401, 403, 404)}, tags=["fleet"]
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return what is wanted of the fleet and what was last seen of it."""
        found = run_named(run)
        return bodies.answer(selectors.fleet_state(found.pk, now=timezone.now()))


class FleetControlView(WaitingView):
    """What the platform wants of a fleet."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="fleet_control",
        parameters=[
            OpenApiParameter("after", str, description="Fingerprint of the last answer."),
            OpenApiParameter(
                "wait", float, description="Seconds to wait for another fingerprint; 0 to 30."
            ),
        ],
        responses={200: FleetControl, **problems(400, 401, 403, 404)},
        tags=["fleet"],
    )
    def get(self, request: Request, run: str) -> HttpResponseBase:
        """Return the control state, once it is another than `after` or the time is over."""
        seconds = wait_of(request, default=0.0, at_most=LONGEST_WAIT_SECONDS)
        after = request.query_params.get("after", "")
        run_id = run_named(run).pk

        def look() -> HttpResponse | None:
            state = selectors.control_of(run_id)
            return None if state.fingerprint == after else bodies.answer(state)

        return self.wait(
            # Pushes change the room in the buffer and tell so themselves, in their receipts.
            Line(run_id=run_id, wanted=("control", after), parts=frozenset({"run", "errands"})),
            seconds=seconds,
            look=look,
            last=lambda: bodies.answer(selectors.control_of(run_id)),
        )


class FleetReportView(APIView):
    """What a fleet says of itself."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="fleet_report",
        request=FleetReport,
        responses={200: FleetControl, **problems(400, 401, 403, 404, 409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Store a report, once however often it is sent, and return the control state."""
        report = bodies.read(request, FleetReport)
        found = run_named(run)
        services.accept_report(run_id=found.pk, report=report, now=timezone.now())
        return bodies.answer(selectors.control_of(found.pk))


class EpisodesView(APIView):
    """Statistics of ended episodes."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="episodes",
        parameters=[_AFTER, _LIMIT],
        responses={200: Episodes, **problems(400, 401, 403, 404)},
        tags=["episodes"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return windows of episodes, oldest first; the newest ones without `after`."""
        after, limit = _page_of(request)
        rows = selectors.episodes(run_named(run).pk, after=after, limit=limit)
        return bodies.answer(Episodes(results=rows))


class EpisodeSummaryView(APIView):
    """Statistics of recent episodes over environments."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="episodes_summary",
        parameters=[
            OpenApiParameter("seconds", int, description="How far back; 1 to 86400, 300 if absent.")
        ],
        responses={200: EpisodeSummary, **problems(400, 401, 403, 404)},
        tags=["episodes"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return recent episodes by environment and mode, and their means over environments."""
        seconds = bodies.whole_number(request, "seconds", default=300, at_least=1, at_most=86_400)
        summary = selectors.episode_summary(
            run_named(run).pk, seconds=seconds or 1, now=timezone.now()
        )
        return bodies.answer(summary)


class MetricsView(APIView):
    """Numbers that trainers wrote down."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return who may do what: trainers write, everybody of the run reads."""
        return [scoped("trainer")() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="metrics",
        parameters=[
            OpenApiParameter("names", str, description="Comma-separated; absent for all."),
            _AFTER,
            _LIMIT,
        ],
        responses={200: Metrics, **problems(400, 401, 403, 404)},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return samples, oldest first; the newest ones without `after`."""
        after, limit = _page_of(request)
        names = [name for name in request.query_params.get("names", "").split(",") if name]
        rows = selectors.metrics(run_named(run).pk, names=names, after=after, limit=limit)
        return bodies.answer(Metrics(results=rows))

    @extend_schema(
        operation_id="record_metrics",
        request=MetricsPush,
        parameters=[OpenApiParameter("Idempotency-Key", location=OpenApiParameter.HEADER)],
        responses={201: MetricsReceipt, **problems(400, 401, 403, 404, 409, 422)},
        tags=["metrics"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Store samples: all of them, or none when one is wrong."""
        push = bodies.read(request, MetricsPush)
        key = buffer_services.PushKey.of(request.headers.get("Idempotency-Key"), request.body)
        run_id, now = run_named(run).pk, timezone.now()

        def store() -> dict[str, Any]:
            return {"stored": services.record_metrics(run_id=run_id, push=push, now=now)}

        answer = buffer_services.once(run_id=run_id, key=key, now=now, push=store)
        response = bodies.answer(MetricsReceipt(**answer.content), status=201)
        if answer.replayed:
            response["Idempotent-Replayed"] = "true"
        return response


def _page_of(request: Request) -> tuple[int | None, int]:
    after = bodies.whole_number(request, "after", default=None, at_least=0, at_most=_LONGEST_ID)
    limit = bodies.whole_number(
        request, "limit", default=500, at_least=1, at_most=selectors.ROWS_AT_MOST
    )
    return after, limit or 1
