"""Views that serve bundles."""

from typing import Final

from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from buffer.inspect.api.group_lists import FILTERS, filter_of
from buffer.items.api import streamed
from frontend.bundles.comparisons import comparison_page
from frontend.bundles.parts import GROUPS, GROUPS_AT_MOST, bundle
from rollouts.metrics.queries.charts import comparison as kept_comparison
from runs.access.api.permissions import Readers
from runs.lifecycle.queries import readable_run
from web.http.bodies import whole_number
from web.http.openapi import between
from web.http.views import ApiView

HTML: Final = "text/html; charset=utf-8"


class BundleView(ApiView):
    """A run as a single file."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="runs_bundle",
        parameters=[
            *FILTERS,
            OpenApiParameter(
                "groups",
                between(0, GROUPS_AT_MOST),
                description=f"Number of groups; 0 to {GROUPS_AT_MOST}, {GROUPS} if absent.",
            ),
        ],
        responses={
            (200, "text/html"): OpenApiTypes.BINARY,
        },
        tags=["runs"],
    )
    def get(self, request: Request, run: str) -> StreamingHttpResponse:
        """Download a run report as HTML.

        A single page that needs no server: facts, ledger, metrics and groups.
        """
        groups = whole_number(request, "groups", default=GROUPS, at_least=0, at_most=GROUPS_AT_MOST)
        group_filter, found = filter_of(request), readable_run(run)
        return streamed(
            request,
            bundle(found, group_filter, groups=groups or 0, now=timezone.now()),
            content_type=HTML,
            filename=f"{found.name}.html",
        )


class ComparisonFileView(ApiView):
    """A saved comparison as a single file."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="comparisons_file",
        responses={(200, "text/html"): OpenApiTypes.BINARY},
        tags=["runs"],
    )
    def get(self, request: Request, comparison: int) -> StreamingHttpResponse:
        """Download a comparison as HTML.

        A single page that needs no server, with the present state of its runs.
        """
        row = kept_comparison(comparison)
        return streamed(
            request,
            comparison_page(row, now=timezone.now()),
            content_type=HTML,
            filename=f"comparison-{row.id}.html",
        )
