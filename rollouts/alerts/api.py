"""API of alert rule backtests."""

import math

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.alerts.queries.metric_conditions import Draft, preview
from rollouts.alerts.schemas import RulePreview
from runs.access.api.permissions import Readers
from runs.alerts.rules.alert_rules import LONGEST_SECONDS, Comparator, Limit
from runs.alerts.services.alert_rules import scope_of
from web.http.bodies import InvalidBody, answer, whole_number
from web.http.openapi import between
from web.http.views import ApiView

HOURS_AT_MOST = 24 * 30


class RulePreviewView(ApiView):
    """Backtest of an unsaved rule."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="alert_rules_preview",
        parameters=[
            OpenApiParameter("metric", required=True),
            OpenApiParameter("comparator", required=True, enum=[str(one) for one in Comparator]),
            OpenApiParameter(
                "threshold", float, description="Omit for `not_finite` and `no_data`."
            ),
            OpenApiParameter(
                "for_seconds",
                between(0, LONGEST_SECONDS),
                description="Duration of a breach before the alert fires. Default: 0.",
            ),
            OpenApiParameter("run", description="Name of the only run."),
            OpenApiParameter("filter", description="Filter of runs, if `run` is absent."),
            OpenApiParameter(
                "hours",
                between(1, HOURS_AT_MOST),
                description=f"1 to {HOURS_AT_MOST}, default 24.",
            ),
        ],
        responses={200: RulePreview},
        tags=["alerts"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Backtest an alert rule.

        Returns the periods in which the rule would have fired, with the curves; newest run
        first. Stores nothing.
        """
        hours = whole_number(request, "hours", default=24, at_least=1, at_most=HOURS_AT_MOST)
        for_seconds = whole_number(
            request, "for_seconds", default=0, at_least=0, at_most=LONGEST_SECONDS
        )
        comparator = _text_parameter(request, "comparator")
        if comparator not in {str(one) for one in Comparator}:
            raise InvalidBody("comparator", f"must be one of {', '.join(Comparator)}")
        metric = _text_parameter(request, "metric")
        if not metric:
            raise InvalidBody("metric", "is required")
        draft = Draft(
            metric=metric,
            limit=Limit(
                comparator=Comparator(comparator),
                threshold=_number(request, "threshold"),
                for_seconds=for_seconds or 0,
            ),
            **scope_of(
                run=_text_parameter(request, "run") or None,
                run_filter=_text_parameter(request, "filter"),
            ),
        )
        return answer(preview(draft, hours=hours or 1, now=timezone.now()))


def _text_parameter(request: Request, name: str) -> str:
    word = request.query_params.get(name, "")
    if "\x00" in word:
        raise InvalidBody(name, "must not contain NUL")
    return word


def _number(request: Request, name: str) -> float | None:
    raw = request.query_params.get(name, "")
    try:
        value = float(raw) if raw else None
    except ValueError:
        value = math.nan
    if value is not None and not math.isfinite(value):
        raise InvalidBody(name, "must be a finite number")
    return value
