"""API schemas of segments."""

from datetime import datetime

from msgspec import Struct

from web.rules.pages import Page


class SegmentRow(Struct, frozen=True, kw_only=True):
    """A period whose payloads are dropped together."""

    number: int
    opened_at: datetime
    sealed_at: datetime | None
    dropped_at: datetime | None
    cleared_at: datetime | None
    items: int
    size_bytes: int


class SegmentList(Page[SegmentRow], frozen=True, kw_only=True):
    """Segments, newest first."""
