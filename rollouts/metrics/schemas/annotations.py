"""Schemas of the chart annotations API."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from web.http.field_types import Reason
from web.rules.pages import Page

_Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class NewAnnotation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A short text at a position of a run's charts."""

    text: Annotated[str, Meta(min_length=1, max_length=200)]
    at: datetime | None = None
    """Annotated time; null for the present."""
    step: _Place | None = None
    """Train step; null: derived from the run's measurements at that time."""
    amount: _Place | None = None
    """Tokens served by then, or env steps of a fleet run; null: derived from measurements."""
    reason: Reason = ""


class AnnotationRow(Struct, frozen=True, kw_only=True):
    """A chart annotation of a run."""

    id: int
    text: str
    at: datetime
    step: int | None
    """Null: unknown, because nothing was measured by then."""
    amount: int | None
    created_at: datetime
    created_by: str
    is_own: bool
    """Whether the caller wrote it."""


class ChartEvent(Struct, frozen=True, kw_only=True):
    """A change of a run shown in charts: of its state, settings, epoch or fleet."""

    id: int
    """Id of the event; with the kind `weights_version`, of the version."""
    kind: str
    message: str
    at: datetime
    step: int | None
    amount: int | None


class Annotations(Page[AnnotationRow], frozen=True, kw_only=True):
    """The newest annotations and changes of a run's charts, oldest first."""

    events: list[ChartEvent]
    """The newest changes, oldest first."""
