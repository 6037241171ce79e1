"""API view of payload segments."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.payloads.models import Segment
from buffer.payloads.schemas import SegmentList, SegmentRow
from runs.access.api.permissions import Admins
from web.http.bodies import answer
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView


class SegmentsView(ApiView):
    """The payload segments."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="segments_list",
        parameters=page_parameters(default=200, most=2000),
        responses={200: SegmentList},
        tags=["payloads"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List segment files.

        Newest first; sizes may be a few seconds old.
        """
        page = page_of(request, int, default=200, most=2000)
        found = segments(before=page.after, limit=page.limit + 1)
        rows, cursor = page.cut(found, lambda segment: segment.number)
        names = SegmentRow.__struct_fields__
        results = [SegmentRow(**{name: getattr(one, name) for name in names}) for one in rows]
        return answer(SegmentList(results=results, next=cursor))


def segments(*, before: int | None, limit: int) -> list[Segment]:
    """Return the payload segments, newest first, older than the segment numbered `before`."""
    found = Segment.objects.order_by("-number")
    if before is not None:
        found = found.filter(number__lt=before)
    return list(found[:limit])
