"""API of the metrics that a person chose last."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from rollouts.metrics.queries.choices import choices_of
from rollouts.metrics.schemas.choices import MetricChoices, SetMetricChoice
from rollouts.metrics.services.choices import set_choice
from runs.access.api.identity import identity_of
from runs.access.api.permissions import LayoutEditors
from web.http.bodies import answer, read
from web.http.views import ApiView


class MetricChoicesView(ApiView):
    """Remembered choices of the caller."""

    permission_classes = [LayoutEditors]

    @extend_schema(
        operation_id="metric_choices_list", responses={200: MetricChoices}, tags=["metrics"]
    )
    def get(self, request: Request) -> HttpResponse:
        """List metric choices.

        Your own, by page and kind of run.
        """
        return answer(choices_of(identity_of(request)))

    @extend_schema(
        operation_id="metric_choices_set",
        request=SetMetricChoice,
        responses={200: MetricChoices},
        tags=["metrics"],
    )
    def put(self, request: Request) -> HttpResponse:
        """Set a metric choice.

        Replaces your choice on one page for one kind of run; null deletes it.
        """
        owner = identity_of(request)
        set_choice(body=read(request, SetMetricChoice), owner=owner, now=timezone.now())
        return answer(choices_of(owner))
