"""Shape what is told to everybody, and how the deck grows."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct


class NoticeWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/deck/notice``."""

    text: Annotated[str, Meta(min_length=1, max_length=300)]
    until: Annotated[datetime, Meta(tz=True)] | None = None
    """Null: until it is taken down."""
    reason: Annotated[str, Meta(max_length=2000)] = ""


class Notice(Struct, frozen=True, kw_only=True):
    """What an operator tells everybody."""

    text: str
    reason: str
    until: datetime | None
    set_by: str
    set_at: datetime


class NoticeAnswer(Struct, frozen=True, kw_only=True):
    """What everybody is told at present."""

    notice: Notice | None
    """Null: nothing."""


class DiskForecast(Struct, frozen=True, kw_only=True):
    """When pushes will be refused for want of room, at the rate of the last hours."""

    state: Literal["unknown", "steady", "shrinks", "below"]
    """`unknown`: fewer than 10 samples, or less than half an hour of them. `steady`: not within
    a year. `below`: there is too little room already."""
    per_hour: float | None = None
    """Bytes of free room won an hour; negative where it shrinks."""
    seconds_left: float | None = None
    at: datetime | None = None
    """When that will be."""


class Growth(Struct, frozen=True, kw_only=True):
    """How the deck grew over the last hours, from a sample a minute."""

    since: datetime | None
    """Oldest sample that counts, at most six hours old; null without any."""
    samples: int
    database_bytes_per_hour: float | None
    """Null where the series is too short, as below."""
    wal_bytes_per_hour: float | None
    disk: DiskForecast
    database_bytes: list[int]
    """The series, thinned to at most 60 values, oldest first."""
    disk_free_bytes: list[int]
