"""Shape what is asked and answered about what people say of groups."""

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from buffer.inspect.rules.marks import LONGEST_NOTE, MOST_AT_ONCE
from runs.wire import Reason

GroupIds = Annotated[list[Annotated[int, Meta(ge=1)]], Meta(max_length=MOST_AT_ONCE)]


class MarkGroups(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to write on groups; what is left out stays as it is."""

    groups: GroupIds
    label: Annotated[int, Meta(ge=1, le=9)] | UnsetType | None = UNSET
    """Null takes the label away."""
    is_pinned: bool | UnsetType = UNSET
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] | UnsetType = UNSET
    """Plain text; empty takes the note away."""
    reason: Reason = ""


class NameLabel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a label of the run is called; empty for its digit only."""

    name: Annotated[str, Meta(max_length=200)]
    reason: Reason = ""


class ChangeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Groups that come into a set, and those that leave it."""

    add: GroupIds = []
    remove: GroupIds = []
    reason: Reason = ""


class LabelRow(Struct, frozen=True, kw_only=True):
    """One of the nine labels of a run."""

    label: int
    name: str
    """Empty: nobody named it."""
    groups: int


class SetOfGroups(Struct, frozen=True, kw_only=True):
    """A set of groups."""

    name: str
    groups: int
    created_by: str
    created_at: datetime


class MarkWords(Struct, frozen=True, kw_only=True):
    """What people of a run mark with; groups are counted among the newest 10,000 marked ones."""

    labels: list[LabelRow]
    pinned: int
    noted: int
    sets: list[SetOfGroups]
