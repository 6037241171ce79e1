"""Shape what stands upon the charts of a run beside its numbers."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from runs.wire import Reason

_Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class NewAnnotation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A short text at a place of a run's charts."""

    text: Annotated[str, Meta(min_length=1, max_length=200)]
    at: datetime | None = None
    """The moment that it is about; null for now."""
    step: _Place | None = None
    """Null: as the run's own measurements have it at that moment."""
    amount: _Place | None = None
    """Tokens served by then; env steps made, of a fleet run. Null: as measured."""
    reason: Reason = ""


class AnnotationRow(Struct, frozen=True, kw_only=True):
    """What somebody wrote upon the charts of a run."""

    id: int
    text: str
    at: datetime
    step: int | None
    """Null: not known, as nothing was measured by then."""
    amount: int | None
    created_at: datetime
    created_by: str
    is_own: bool
    """Whether whoever asks wrote it."""


class ChartEvent(Struct, frozen=True, kw_only=True):
    """A change of a run that its charts show: of its state, its settings, its epoch."""

    id: int
    kind: str
    message: str
    at: datetime
    step: int | None
    amount: int | None


class Annotations(Struct, frozen=True, kw_only=True):
    """What stands upon the charts of a run beside its numbers, by the moment."""

    results: list[AnnotationRow]
    """The newest of them, oldest first."""
    events: list[ChartEvent]
    """The newest of them, oldest first."""
