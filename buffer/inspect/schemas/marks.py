"""API schemas for labels and notes of groups."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from buffer.inspect.rules.marks import LONGEST_NOTE, MOST_AT_ONCE
from web.http.field_types import Reason

GroupIds = Annotated[list[Annotated[int, Meta(ge=1)]], Meta(max_length=MOST_AT_ONCE)]


class MarkGroups(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the marks of groups; omitted fields keep their values."""

    groups: GroupIds
    label: Annotated[int, Meta(ge=1, le=9)] | UnsetType | None = UNSET
    """Null removes the label."""
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] | UnsetType = UNSET
    """Plain text; empty removes the note."""
    reason: Reason = ""


class NameLabel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name of a label in a run; empty removes the name."""

    name: Annotated[str, Meta(max_length=200)]
    reason: Reason = ""


class LabelRow(Struct, frozen=True, kw_only=True):
    """One of the nine labels of a run."""

    label: int
    name: str
    """Empty if unnamed."""
    groups: int


class MarkVocabulary(Struct, frozen=True, kw_only=True):
    """Labels of a run; counts cover the newest 10,000 marked groups."""

    labels: list[LabelRow]
    noted: int
    """Number of groups with a note."""
