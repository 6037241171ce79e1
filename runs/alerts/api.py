"""API views of alerts, alert rules, snoozes and notification channels."""

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, OperatorsToChange, Readers
from runs.alerts.jobs import send_webhooks_soon
from runs.alerts.queries import alert_lists, conditions
from runs.alerts.queries.alert_lists import snooze_list, snooze_row
from runs.alerts.rules import AlertKind, AlertState, Severity
from runs.alerts.schemas import (
    AcknowledgeAlert,
    AlertDeliveryRow,
    AlertDetail,
    AlertKindList,
    AlertList,
    AlertRuleList,
    AlertRuleRow,
    NewSnooze,
    SetAlertRule,
    SnoozeList,
    SnoozeRow,
    WebhookList,
)
from runs.alerts.services import alert_rules, alerts, webhooks
from runs.lifecycle.schemas import ActionReason
from web.http.bodies import answer, read, reason_in, text_parameter
from web.http.openapi import REASON, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

# API views that list, acknowledge and resolve alerts.

CHOICES = {
    "state": ["unresolved", *map(str, AlertState), "all"],
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
            *page_parameters(default=50, most=alert_lists.ALERTS_AT_MOST),
        ],
        responses={200: AlertList},
        tags=["alerts"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List alerts.

        Newest first; unresolved alerts unless `state` is given. Unresolved alerts of one kind or
        rule in one state are one entry: the newest, with `count` and `runs`; errors come first.
        With `kind` they are listed one by one, like resolved alerts.
        """
        page = page_of(request, int, default=50, most=alert_lists.ALERTS_AT_MOST)
        filters = {
            name: text_parameter(request, name, choices=CHOICES.get(name, ()))
            for name in FILTER_PARAMETERS
        }
        return answer(alert_lists.alert_page(page, filters=filters, now=timezone.now()))


class AlertKindsView(ApiView):
    """The kinds of alerts."""

    permission_classes = [Readers]

    @extend_schema(operation_id="alert_kinds_list", responses={200: AlertKindList}, tags=["alerts"])
    def get(self, request: Request) -> HttpResponse:
        """List the kinds of alerts.

        Returns the title, the default severity and the recommended action of each kind; ordered
        by kind.
        """
        return answer(alert_lists.alert_kinds())


class AlertView(ApiView):
    """One alert."""

    permission_classes = [Readers]

    @extend_schema(operation_id="alerts_get", responses={200: AlertDetail}, tags=["alerts"])
    def get(self, request: Request, alert: int) -> HttpResponse:
        """Get an alert.

        Returns its details and notifications.
        """
        return answer(alert_lists.alert_detail(alert_lists.alert_of(alert), now=timezone.now()))


class AcknowledgeView(ApiView):
    """Acknowledgement of an alert."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="alerts_acknowledge",
        request=AcknowledgeAlert,
        responses=RESPONSES,
        tags=["alerts"],
    )
    def post(self, request: Request, alert: int) -> HttpResponse:
        """Acknowledge an alert.

        With `same_kind`, every open alert of its kind is acknowledged.
        """
        body = read(request, AcknowledgeAlert)
        changed = alerts.acknowledge(
            alert_id=alert,
            actor=identity_of(request),
            reason=body.reason,
            same_kind=body.same_kind,
            now=timezone.now(),
        )
        return answer(alert_lists.alert_detail(changed, now=timezone.now()))


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
        changed = alerts.resolve(
            alert_id=alert,
            actor=identity_of(request),
            reason=read(request, ActionReason).reason,
            now=timezone.now(),
        )
        return answer(alert_lists.alert_detail(changed, now=timezone.now()))


# API views of alert rules and snoozes.


class AlertRulesView(ApiView):
    """The alert rules."""

    permission_classes = [OperatorsToChange]

    @extend_schema(operation_id="alert_rules_list", responses={200: AlertRuleList}, tags=["alerts"])
    def get(self, request: Request) -> HttpResponse:
        """List alert rules.

        Rules are sorted by name; each has the number of its open alerts.
        """
        return answer(conditions.rule_list())

    @extend_schema(
        operation_id="alert_rules_create",
        request=SetAlertRule,
        responses={201: AlertRuleRow, **problems(409)},
        tags=["alerts"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Create an alert rule.

        Evaluation begins within seconds.
        """
        rule = alert_rules.make_rule(
            body=read(request, SetAlertRule), actor=identity_of(request), now=timezone.now()
        )
        return answer(conditions.rule_row(rule), status=201)


class AlertRuleView(ApiView):
    """One alert rule."""

    permission_classes = [OperatorsToChange]

    @extend_schema(operation_id="alert_rules_get", responses={200: AlertRuleRow}, tags=["alerts"])
    def get(self, request: Request, rule: int) -> HttpResponse:
        """Get an alert rule."""
        return answer(conditions.rule_row(conditions.rule_of(rule)))

    @extend_schema(
        operation_id="alert_rules_replace",
        request=SetAlertRule,
        responses={200: AlertRuleRow},
        tags=["alerts"],
    )
    def put(self, request: Request, rule: int) -> HttpResponse:
        """Replace an alert rule.

        A disabled rule is kept and not evaluated.
        """
        changed = alert_rules.change_rule(
            rule_id=rule,
            body=read(request, SetAlertRule),
            actor=identity_of(request),
            now=timezone.now(),
        )
        return answer(conditions.rule_row(changed))

    @extend_schema(
        operation_id="alert_rules_delete",
        parameters=[REASON],
        responses={204: None},
        tags=["alerts"],
    )
    def delete(self, request: Request, rule: int) -> HttpResponse:
        """Delete an alert rule.

        Deletes its snoozes too; its alerts resolve within seconds.
        """
        alert_rules.delete_rule(
            rule_id=rule, actor=identity_of(request), reason=reason_in(request), now=timezone.now()
        )
        return HttpResponse(status=204)


class SnoozesView(ApiView):
    """The snoozed alerts and rules."""

    permission_classes = [OperatorsToChange]

    @extend_schema(operation_id="alert_snoozes_list", responses={200: SnoozeList}, tags=["alerts"])
    def get(self, request: Request) -> HttpResponse:
        """List snoozed alerts and rules.

        Those that end last come first.
        """
        return answer(snooze_list(now=timezone.now()))

    @extend_schema(
        operation_id="alert_snoozes_create",
        request=NewSnooze,
        responses={201: SnoozeRow},
        tags=["alerts"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Snooze an alert or a rule.

        Sends no notifications until the snooze ends; a second one replaces the first.
        """
        made = alert_rules.snooze(
            body=read(request, NewSnooze), actor=identity_of(request), now=timezone.now()
        )
        return answer(snooze_row(made, names={}), status=201)


class SnoozeView(ApiView):
    """One snooze."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="alert_snoozes_end",
        parameters=[REASON],
        responses={204: None},
        tags=["alerts"],
    )
    def delete(self, request: Request, snooze: int) -> HttpResponse:
        """End a snooze.

        Alerts that still hold send their notifications.
        """
        alert_rules.end_snooze(
            snooze_id=snooze,
            actor=identity_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)


# API views that list and test webhooks.


class WebhooksView(ApiView):
    """The notification channels."""

    permission_classes = [Readers]

    @extend_schema(operation_id="webhooks_list", responses={200: WebhookList}, tags=["alerts"])
    def get(self, request: Request) -> HttpResponse:
        """List webhooks.

        In the order of the settings, with the answer to the newest test delivery.
        """
        return answer(alert_lists.webhooks())


class WebhookTestView(ApiView):
    """Test of one channel."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="webhooks_test",
        request=ActionReason,
        responses={202: AlertDeliveryRow, **problems(429)},
        tags=["alerts"],
    )
    def post(self, request: Request, webhook: str) -> HttpResponse:
        """Send a test to a webhook.

        A signed sample, sent once; the list shows the answer.
        """
        delivery = webhooks.send_test(
            webhook=webhook,
            actor=identity_of(request),
            reason=read(request, ActionReason).reason,
            now=timezone.now(),
        )
        send_webhooks_soon()
        return answer(alert_lists.delivery_row(delivery), status=202)
