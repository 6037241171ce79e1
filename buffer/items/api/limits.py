"""API view of the server's limits."""

from dataclasses import asdict

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.items.queries.counts import server_limits
from buffer.items.rules.limits import MAX_TOKEN_ID
from buffer.items.schemas import LimitsAnswer
from runs.access.api.permissions import Known
from web.http.bodies import answer
from web.http.views import ApiView


class LimitsView(ApiView):
    """The limits of this server."""

    permission_classes = [Known]

    @extend_schema(
        operation_id="limits_get",
        responses={200: LimitsAnswer},
        tags=["server"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List limits.

        Maximum sizes and counts; errors refer to them by the same names.
        """
        bounds = {f"max_{name}": bound for name, bound in asdict(server_limits()).items()}
        return answer(
            LimitsAnswer(
                **bounds,
                min_free_disk_bytes=settings.ROLLDECK_MIN_FREE_DISK_BYTES,
                max_token_id=MAX_TOKEN_ID,
            )
        )
