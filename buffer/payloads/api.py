"""API view of payload segments."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer.payloads import queries as payloads
from buffer.payloads.models import Segment
from buffer.payloads.schemas import SegmentList, SegmentRow
from runs.access.api.permissions import Admins
from web.http.bodies import answer, whole_number
from web.http.openapi import between


class SegmentsView(APIView):
    """The payload segments."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="segments_list",
        parameters=[OpenApiParameter("limit", between(1, 2000))],
        responses={200: SegmentList},
        tags=["payloads"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List segment files.

        Newest first; sizes may be a few seconds old.
        """
        limit = whole_number(request, "limit", default=200, at_least=1, at_most=2000)
        rows = payloads.segments(limit=limit or 200)
        return answer(SegmentList(results=[_row(segment) for segment in rows]))


def _row(segment: Segment) -> SegmentRow:
    names = SegmentRow.__struct_fields__
    return SegmentRow(**{name: getattr(segment, name) for name in names})
