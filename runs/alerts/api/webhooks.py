"""API views that list and test webhooks."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.alerts.jobs import send_webhooks_soon
from runs.alerts.queries import alerts as selectors
from runs.alerts.schemas import AlertDeliveryRow, WebhookList
from runs.alerts.services import webhooks as services
from runs.lifecycle.schemas import ActionReason
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.views import ApiView


class WebhooksView(ApiView):
    """The notification channels."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="webhooks_list",
        responses={200: WebhookList},
        tags=["alerts"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List webhooks.

        In the order of the settings, with the answer to the newest test delivery.
        """
        return answer(selectors.webhooks())


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
        delivery = services.send_test(
            webhook=webhook,
            actor=identity_of(request),
            reason=read(request, ActionReason).reason,
            now=timezone.now(),
        )
        send_webhooks_soon()
        return answer(selectors.delivery_row(delivery), status=202)
