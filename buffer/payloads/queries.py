"""Payload segments and archive jobs."""

from buffer.payloads.models import Segment


def segments(*, limit: int) -> list[Segment]:
    """Return the payload segments, newest first."""
    return list(Segment.objects.order_by("-number")[:limit])
