"""API of metrics: recording, samples, columns and chart lines."""

import math
from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from buffer.ingest.services.idempotency import PushKey, run_idempotent
from rollouts.control.api.queries import SERIES_PARAMETERS, series_page
from rollouts.metrics.queries import series
from rollouts.metrics.queries.metrics import (
    KEYS_AT_MOST,
    SAMPLES_AT_ONCE,
    metric_keys,
    metric_names,
    metrics,
    samples_of,
)
from rollouts.metrics.queries.series import AXES, TIMES, SeriesRange, metric_context_at
from rollouts.metrics.rules import X_AT_MOST
from rollouts.metrics.schemas import (
    MetricContext,
    MetricKeys,
    MetricLines,
    MetricNames,
    Metrics,
    MetricSamples,
    MetricsPush,
)
from rollouts.metrics.schemas import MetricsReceipt as Receipt
from rollouts.metrics.services.metrics import record_metrics
from runs.access.api.identity import caller_of
from runs.access.api.permissions import Readers, scoped
from runs.access.rules import act_as
from runs.lifecycle.queries import readable_run, readable_run_id, run_named
from web.http import bodies
from web.http.openapi import IDEMPOTENCY_KEY, between, listed, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

RUNS_AT_MOST: Final = 20
NAMES_AT_MOST: Final = 50
LINES_AT_MOST: Final = 100
POINTS_AT_MOST: Final = 2000
_LONGEST: Final = 2**31 - 1

_LINE_PARAMETERS: Final = [
    OpenApiParameter(
        "names", listed(50), required=True, description="Comma-separated metric names."
    ),
    OpenApiParameter("x", str, enum=AXES, description="Axis of the chart. Default: `step`."),
    OpenApiParameter(
        "from",
        float,
        description="Start of the range: a step, tokens, seconds since 1970 or, for "
        "`elapsed`, since the run began (negative before that).",
    ),
    OpenApiParameter("to", float, description="End of the range."),
    OpenApiParameter(
        "points",
        between(1, POINTS_AT_MOST),
        description=f"Maximum number of buckets per line: 1 to {POINTS_AT_MOST}, default 1000.",
    ),
]


class MetricsView(ApiView):
    """Metric samples of a run."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permissions: trainers and environments write, readers of the run read."""
        return [scoped("trainer", "env")() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="metrics_list",
        parameters=[
            OpenApiParameter("names", str, description="Comma-separated; all if absent."),
            *SERIES_PARAMETERS,
        ],
        responses={200: Metrics},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List metric samples.

        Newest first.
        """
        after_id, page = series_page(request)
        found = metrics(
            readable_run(run).pk, page, names=_listed(request, "names"), after_id=after_id
        )
        return bodies.answer(found)

    @extend_schema(
        operation_id="metrics_create",
        request=MetricsPush,
        parameters=[IDEMPOTENCY_KEY],
        responses={201: Receipt, **problems(409, 422)},
        tags=["metrics"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Record metric samples.

        All or none. Tokens of the scope `env` record names that begin with `env/`.
        """
        push = bodies.read(request, MetricsPush)
        key = PushKey.of(request.headers.get("Idempotency-Key"), request.body)
        run_id, now = run_named(run).pk, timezone.now()
        is_limited = not act_as("trainer").allows(caller_of(request), run=run)

        def store() -> Receipt:
            stored = record_metrics(run_id=run_id, push=push, only_environments=is_limited, now=now)
            return Receipt(stored=stored)

        result = run_idempotent(run_id=run_id, key=key, now=now, push=store, kind=Receipt)
        return bodies.answer(result.receipt, status=201, is_replayed=result.replayed)


class MetricKeysView(ApiView):
    """Metric names of a run with their last samples."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="metric_keys",
        parameters=[
            OpenApiParameter(
                "names",
                listed(NAMES_AT_MOST),
                description=f"Comma-separated exact names, at most {NAMES_AT_MOST}; all if absent.",
            ),
            OpenApiParameter("search", str, description="Words that the name must contain."),
            OpenApiParameter("prefix", str, description="Prefix of the name."),
            *page_parameters(default=200, most=KEYS_AT_MOST),
        ],
        responses={200: MetricKeys},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List metrics with their last samples.

        By name.
        """
        page = page_of(request, str, default=200, most=KEYS_AT_MOST)
        names = _listed(request, "names")
        if len(names) > NAMES_AT_MOST:
            raise bodies.InvalidBody("names", f"must contain at most {NAMES_AT_MOST} metric names")
        texts = {name: _text(request, name) for name in ("search", "prefix")}
        return bodies.answer(metric_keys(readable_run_id(run), page, names=names, **texts))


class MetricNamesView(ApiView):
    """All metric names of a run, for trees of names."""

    permission_classes = [Readers]

    @extend_schema(operation_id="metric_names", responses={200: MetricNames}, tags=["metrics"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """List metric names.

        By name.
        """
        return bodies.answer(metric_names(readable_run_id(run)))


class MetricSamplesView(ApiView):
    """Samples of one metric."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="metric_samples",
        parameters=[
            OpenApiParameter("name", str, required=True),
            OpenApiParameter(
                "after", between(0, _LONGEST), description="Number of samples to skip. Default: 0."
            ),
            OpenApiParameter(
                "limit",
                between(1, SAMPLES_AT_ONCE),
                description=f"1 to {SAMPLES_AT_ONCE} (default).",
            ),
        ],
        responses={200: MetricSamples},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List samples of one metric.

        As columns, in the order of arrival.
        """
        after = bodies.whole_number(request, "after", default=0, at_least=0, at_most=_LONGEST)
        limit = bodies.whole_number(
            request, "limit", default=SAMPLES_AT_ONCE, at_least=1, at_most=SAMPLES_AT_ONCE
        )
        found = samples_of(
            readable_run_id(run), _text(request, "name"), after=after or 0, limit=limit or 1
        )
        return bodies.answer(found)


class RunLinesView(ApiView):
    """Lines of one run's charts."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="metric_lines",
        parameters=_LINE_PARAMETERS,
        responses={200: MetricLines},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get metric curves.

        Minimum, maximum, last and mean value of each bucket.
        """
        return _lines(request, [run])


class LinesView(ApiView):
    """Lines of several runs in one chart."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="metric_lines_of_runs",
        parameters=[
            OpenApiParameter(
                "runs", listed(20), required=True, description="Comma-separated run names."
            ),
            *_LINE_PARAMETERS,
        ],
        responses={200: MetricLines, **problems(404)},
        tags=["metrics"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Get metric curves of several runs.

        One line for each run and metric.
        """
        runs = _listed(request, "runs")
        if not 1 <= len(runs) <= RUNS_AT_MOST:
            raise bodies.InvalidBody("runs", f"must contain 1 to {RUNS_AT_MOST} run names")
        return _lines(request, runs)


class MetricContextView(ApiView):
    """Context of a chart point."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="metric_context",
        parameters=[
            OpenApiParameter("name", str, required=True, description="Name of the metric."),
            *(one for one in _LINE_PARAMETERS if one.name in {"x", "from", "to"}),
        ],
        responses={200: MetricContext},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the context of a metric range.

        Policy versions and batches at the time of the samples.
        """
        chart_range = _chart_range(request)
        return bodies.answer(
            metric_context_at(readable_run(run), _text(request, "name"), chart_range)
        )


def _lines(request: Request, runs: list[str]) -> HttpResponse:
    names = _listed(request, "names")
    most = min(NAMES_AT_MOST, LINES_AT_MOST // len(runs))
    if not 1 <= len(names) <= most:
        raise bodies.InvalidBody(
            "names", f"must contain 1 to {most} metric names for {len(runs)} runs"
        )
    chart_range = _chart_range(request)
    run_ids = [(run, readable_run_id(run)) for run in runs]
    lines = series.lines(run_ids, names, chart_range)
    return bodies.answer(MetricLines(x=chart_range.axis, lines=lines))  # type: ignore[arg-type]


def _chart_range(request: Request) -> SeriesRange:
    axis = request.query_params.get("x", "step")
    if axis not in AXES:
        raise bodies.InvalidBody("x", f"must be one of {', '.join(AXES)}")
    unit = 1_000_000 if axis in TIMES else 1
    # A run may record metrics before its first trainer registers.
    least = -X_AT_MOST if axis == "elapsed" else 0
    first = _number(request, "from", unit=unit, least=least, default=least)
    last = _number(request, "to", unit=unit, least=least, default=X_AT_MOST)
    if first > last:
        raise bodies.InvalidBody("to", "must not be less than `from`")
    points = bodies.whole_number(
        request, "points", default=1000, at_least=1, at_most=POINTS_AT_MOST
    )
    return SeriesRange(
        axis=axis, first=math.ceil(first), last=math.floor(last), at_most=points or 1
    )


def _number(request: Request, name: str, *, unit: int, least: int, default: int) -> float:
    raw = request.query_params.get(name)
    if raw is None:
        return default
    try:
        # Integers stay exact beyond 2**53.
        place = int(raw) * unit if raw.isascii() and raw.isdigit() else float(raw) * unit
    except ValueError:
        place = math.nan
    if not least <= place <= X_AT_MOST:
        bounds = f"{-(-least // unit)} to {X_AT_MOST // unit}"
        raise bodies.InvalidBody(name, f"must be a number from {bounds}")
    return place


def _listed(request: Request, name: str) -> list[str]:
    found = [one for one in _text(request, name).split(",") if one]
    return list(dict.fromkeys(found))


def _text(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if "\x00" in text:
        raise bodies.InvalidBody(name, "must not contain NUL")
    return text
