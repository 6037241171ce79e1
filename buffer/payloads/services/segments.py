"""Sealing of the open segment, and opening of the next one."""

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum

from buffer.items.models import FragmentChunk, TrajectoryGroup
from buffer.payloads.models import Segment
from buffer.payloads.rules import SegmentInfo, is_full, is_settled
from buffer.payloads.services.partitions import clear_current_segment, make_partition, open_segment


def segment_info(row: Segment) -> SegmentInfo:
    """Return a segment in the form that the retention rules read."""
    return SegmentInfo(
        number=row.number,
        opened_at=row.opened_at,
        sealed_at=row.sealed_at,
        items=row.items,
        size_bytes=row.size_bytes,
    )


def rotate_segment(*, now: datetime) -> int:
    """Update the sizes of segments, and seal the open one if it is full.

    Returns:
        The number of the open segment.
    """
    number = open_segment()
    make_partition(number + 1)
    for row in Segment.objects.filter(dropped_at=None).order_by("number"):
        if not is_settled(segment_info(row), now=now):
            _measure(row)
    open_ = Segment.objects.get(sealed_at=None)
    if is_full(
        segment_info(open_),
        now=now,
        seconds=settings.ROLLDECK_SEGMENT_SECONDS,
        size_bytes=settings.ROLLDECK_SEGMENT_BYTES,
    ):
        return seal(open_.number, now=now)
    return open_.number


@transaction.atomic
def seal(number: int, *, now: datetime) -> int:
    """Seal a segment, and return the number of the new open segment."""
    Segment.objects.filter(number=number, sealed_at=None).update(sealed_at=now)
    opened = open_segment()
    transaction.on_commit(clear_current_segment)
    return opened


def _measure(row: Segment) -> None:
    items = size_bytes = 0
    for model in (TrajectoryGroup, FragmentChunk):
        rows = model.objects.filter(segment=row.number)
        found = rows.aggregate(items=Count("id"), size_bytes=Sum("size_bytes"))
        items += found["items"]
        size_bytes += found["size_bytes"] or 0
    Segment.objects.filter(number=row.number).update(items=items, size_bytes=size_bytes)
