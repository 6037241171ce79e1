"""Rules for sealing segments and dropping sealed segments.

Segments are dropped whole, oldest first. `now` and all `_at` values are from the same clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

MARKER: Final = ".deployment"
"""File in each folder, or object in the bucket, with the id of its deployment."""
# A writer may still use a sealed segment while it caches the number (1 s) and its transaction
# lasts. Segments are left untouched for much longer than that.
GRACE: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInfo:
    """The attributes of a segment that retention reads."""

    number: int
    opened_at: datetime
    sealed_at: datetime | None
    items: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """Retention limits; None for no limit."""

    seconds: float | None
    size_bytes: int | None
    items: int | None


def is_full(open_: SegmentInfo, *, now: datetime, seconds: float, size_bytes: int) -> bool:
    """Return whether to seal the open segment; empty segments are never sealed."""
    if not open_.items:
        return False
    return open_.size_bytes >= size_bytes or now - open_.opened_at >= timedelta(seconds=seconds)


def is_settled(segment: SegmentInfo, *, now: datetime) -> bool:
    """Return whether a segment has no writers any more."""
    return segment.sealed_at is not None and now - segment.sealed_at >= GRACE


def due(segments: Iterable[SegmentInfo], *, now: datetime, limits: RetentionLimits) -> list[int]:
    """Return the numbers of the segments to drop, oldest first.

    Args:
        segments: All segments with bytes. The open one counts towards the limits but is kept.
        now: Current time. The age of a segment is the time since it was sealed.
        limits: Retention limits.
    """
    ordered = sorted(segments, key=lambda segment: segment.number)
    size_bytes = sum(segment.size_bytes for segment in ordered)
    items = sum(segment.items for segment in ordered)
    numbers = []
    for segment in ordered:
        if segment.sealed_at is None or not is_settled(segment, now=now):
            break
        too_much = _over(size_bytes, limits.size_bytes) or _over(items, limits.items)
        is_old = limits.seconds is not None and (
            now - segment.sealed_at >= timedelta(seconds=limits.seconds)
        )
        if not (too_much or is_old):
            break
        numbers.append(segment.number)
        size_bytes -= segment.size_bytes
        items -= segment.items
    return numbers


def _over(count: int, limit: int | None) -> bool:
    return limit is not None and count > limit


def is_worth_moving(*, open_bytes: int, size_bytes: int) -> bool:
    """Return whether to copy the open items elsewhere so that the segment can be dropped.

    Copying more than half of a segment frees less than it writes.
    """
    return open_bytes * 2 <= size_bytes
