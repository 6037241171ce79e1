"""Payload segments and archive jobs."""

from buffer.payloads.models import Segment


def segments(*, before: int | None, limit: int) -> list[Segment]:
    """Return the payload segments, newest first, older than the segment numbered `before`."""
    found = Segment.objects.order_by("-number")
    if before is not None:
        found = found.filter(number__lt=before)
    return list(found[:limit])
