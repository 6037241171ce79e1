"""Schemas of the notice to all users."""

from datetime import datetime
from typing import Annotated

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
