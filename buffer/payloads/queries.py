"""Read what is kept of payloads, here and in archives."""

from buffer.payloads.models import Segment


def segments(*, limit: int) -> list[Segment]:
    """Return the segments of payloads, newest first."""
    return list(Segment.objects.order_by("-number")[:limit])
