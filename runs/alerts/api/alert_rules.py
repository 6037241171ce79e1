"""API views of alert rules and silences."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.alerts.queries import alert_rules as selectors
from runs.alerts.queries.silences import silence_list, silence_row
from runs.alerts.schemas import (
    AlertRuleList,
    AlertRuleRow,
    NewSilence,
    SetAlertRule,
    SilenceList,
    SilenceRow,
)
from runs.alerts.services import alert_rules as services
from runs.alerts.services import silences
from runs.lifecycle.schemas import ActionReason
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView


class AlertRulesView(ApiView):
    """The alert rules."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permission: operators create rules, readers list them."""
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="alert_rules_list",
        responses={200: AlertRuleList},
        tags=["alerts"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List alert rules.

        Rules are sorted by name; each has the number of its open alerts.
        """
        return answer(selectors.rule_list())

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
        rule = services.make_rule(
            body=read(request, SetAlertRule), actor=identity_of(request), now=timezone.now()
        )
        return answer(selectors.rule_row(rule), status=201)


class AlertRuleView(ApiView):
    """One alert rule."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permission: operators change the rule, readers get it."""
        return [Readers() if self.request.method == "GET" else Operators()]

    @extend_schema(
        operation_id="alert_rules_get",
        responses={200: AlertRuleRow},
        tags=["alerts"],
    )
    def get(self, request: Request, rule: int) -> HttpResponse:
        """Get an alert rule."""
        return answer(selectors.rule_row(selectors.rule_of(rule)))

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
        changed = services.change_rule(
            rule_id=rule,
            body=read(request, SetAlertRule),
            actor=identity_of(request),
            now=timezone.now(),
        )
        return answer(selectors.rule_row(changed))

    @extend_schema(
        operation_id="alert_rules_delete",
        parameters=[REASON],
        responses={204: None},
        tags=["alerts"],
    )
    def delete(self, request: Request, rule: int) -> HttpResponse:
        """Delete an alert rule.

        Deletes its silences too; its alerts resolve within seconds.
        """
        services.delete_rule(
            rule_id=rule, actor=identity_of(request), reason=reason_in(request), now=timezone.now()
        )
        return HttpResponse(status=204)


class SilencesView(ApiView):
    """The silences of alerts."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permission: operators create silences, readers list them."""
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="alert_silences_list",
        responses={200: SilenceList},
        tags=["alerts"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List alert silences.

        Active silences come first, then expired ones, newest first.
        """
        return answer(silence_list(now=timezone.now()))

    @extend_schema(
        operation_id="alert_silences_create",
        request=NewSilence,
        responses={201: SilenceRow},
        tags=["alerts"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Create an alert silence.

        Alerts of the kind or rule send no notifications until the silence expires.
        """
        now = timezone.now()
        made = silences.silence(body=read(request, NewSilence), actor=identity_of(request), now=now)
        return answer(silence_row(made, names={}, now=now), status=201)


class EndSilenceView(ApiView):
    """Early end of a silence."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="alert_silences_end",
        request=ActionReason,
        responses={200: SilenceRow},
        tags=["alerts"],
    )
    def post(self, request: Request, silence: int) -> HttpResponse:
        """End an alert silence.

        Alerts that still hold send their notifications.
        """
        now = timezone.now()
        ended = silences.end_silence(
            silence_id=silence,
            actor=identity_of(request),
            reason=read(request, ActionReason).reason,
            now=now,
        )
        return answer(silence_row(ended, names={}, now=now))
