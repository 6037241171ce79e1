"""API view of payload segments."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer.api import messages
from buffer.models import Segment
from buffer.selectors import payloads
from runs.api.bodies import answer, whole_number
from runs.api.openapi import between
from runs.api.permissions import Admins


class SegmentsView(APIView):
    """The payload segments."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="segments_list",
        parameters=[OpenApiParameter("limit", between(1, 2000))],
        responses={200: messages.SegmentList},
        tags=["payloads"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List segment files.

        Newest first; sizes may be a few seconds old.
        """
        limit = whole_number(request, "limit", default=200, at_least=1, at_most=2000)
        rows = payloads.segments(limit=limit or 200)
        return answer(messages.SegmentList(results=[_row(segment) for segment in rows]))


def _row(segment: Segment) -> messages.SegmentRow:
    names = messages.SegmentRow.__struct_fields__
    return messages.SegmentRow(**{name: getattr(segment, name) for name in names})
