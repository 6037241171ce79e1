"""API views that list, acknowledge and resolve alerts."""

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.alerts.queries import alerts as selectors
from runs.alerts.rules import AlertKind, AlertState, Severity
from runs.alerts.schemas import AlertDetail, AlertKindList, AlertList
from runs.alerts.services import alerts as services
from runs.lifecycle.schemas import ActionReason
from web.http.bodies import InvalidBody, answer, read
from web.http.openapi import problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

CHOICES = {
    "state": ["unresolved", *map(str, AlertState), "silenced", "all"],
    "severity": [str(each) for each in Severity],
    "kind": [str(each) for each in AlertKind],
}
FILTER_PARAMETERS = (*CHOICES, "run", "text")
RESPONSES: dict[Any, Any] = {200: AlertDetail, **problems(409)}


class AlertsView(ApiView):
    """The alerts."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="alerts_list",
        parameters=[
            *(OpenApiParameter(name, enum=words) for name, words in CHOICES.items()),
            OpenApiParameter("run", description="Full name of the run."),
            OpenApiParameter("text", description="A part of the message."),
            *page_parameters(default=50, most=selectors.ALERTS_AT_MOST),
        ],
        responses={200: AlertList},
        tags=["alerts"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List alerts.

        Newest first; unresolved alerts unless `state` is given.
        """
        page = page_of(request, int, default=50, most=selectors.ALERTS_AT_MOST)
        filters = {name: _text_parameter(request, name) for name in FILTER_PARAMETERS}
        return answer(selectors.alert_page(page, filters=filters, now=timezone.now()))


class AlertKindsView(ApiView):
    """The kinds of alerts."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="alert_kinds_list",
        responses={200: AlertKindList},
        tags=["alerts"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List the kinds of alerts.

        Returns the title, the default severity and the recommended action of each kind; ordered
        by kind.
        """
        return answer(selectors.alert_kinds())


class AlertView(ApiView):
    """One alert."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="alerts_get",
        responses={200: AlertDetail},
        tags=["alerts"],
    )
    def get(self, request: Request, alert: int) -> HttpResponse:
        """Get an alert.

        Returns its details and notifications.
        """
        return answer(selectors.alert_detail(selectors.alert_of(alert), now=timezone.now()))


class AcknowledgeView(ApiView):
    """Acknowledgement of an alert."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="alerts_acknowledge",
        request=ActionReason,
        responses=RESPONSES,
        tags=["alerts"],
    )
    def post(self, request: Request, alert: int) -> HttpResponse:
        """Acknowledge an alert."""
        changed = services.acknowledge(
            alert_id=alert,
            actor=identity_of(request),
            reason=read(request, ActionReason).reason,
            now=timezone.now(),
        )
        return answer(selectors.alert_detail(changed, now=timezone.now()))


class ResolveView(ApiView):
    """Resolution of an alert."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="alerts_resolve", request=ActionReason, responses=RESPONSES, tags=["alerts"]
    )
    def post(self, request: Request, alert: int) -> HttpResponse:
        """Resolve an alert.

        The alert does not fire again while its condition still holds.
        """
        changed = services.resolve(
            alert_id=alert,
            actor=identity_of(request),
            reason=read(request, ActionReason).reason,
            now=timezone.now(),
        )
        return answer(selectors.alert_detail(changed, now=timezone.now()))


def _text_parameter(request: Request, name: str) -> str:
    word = request.query_params.get(name, "")
    if "\x00" in word:
        raise InvalidBody(name, "must not contain the NUL character")
    if word and name in CHOICES and word not in CHOICES[name]:
        raise InvalidBody(name, f"must be one of {', '.join(CHOICES[name])}")
    return word
