"""Schemas of the notice to all users and of the deployment's growth."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct


class SetNotice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/v1/server/notice``."""

    text: Annotated[str, Meta(min_length=1, max_length=300)]
    until: Annotated[datetime, Meta(tz=True)] | None = None
    """Null for no end."""
    reason: Annotated[str, Meta(max_length=2000)] = ""


class Notice(Struct, frozen=True, kw_only=True):
    """Notice of an operator to all users."""

    text: str
    reason: str
    until: datetime | None
    set_by: str
    set_at: datetime


class NoticeAnswer(Struct, frozen=True, kw_only=True):
    """The current notice."""

    notice: Notice | None
    """Null without a notice."""


class DiskForecast(Struct, frozen=True, kw_only=True):
    """Time until pushes are refused for lack of disk space, at the recent rate."""

    state: Literal["unknown", "steady", "shrinks", "below"]
    """`unknown`: fewer than 10 samples, or less than half an hour of them. `steady`: not within
    a year. `below`: already too little space."""
    per_hour: float | None = None
    """Change of free bytes per hour; negative while shrinking."""
    seconds_left: float | None = None
    at: datetime | None = None
    """Predicted time."""


class Growth(Struct, frozen=True, kw_only=True):
    """Growth of the deployment over the last hours, from one sample per minute."""

    since: datetime | None
    """Oldest sample used, at most six hours old; null without samples."""
    samples: int
    database_bytes_per_hour: float | None
    """Null if the series is too short, as below."""
    wal_bytes_per_hour: float | None
    disk: DiskForecast
    database_bytes: list[int]
    """The series, reduced to at most 60 values, oldest first."""
    disk_free_bytes: list[int]
