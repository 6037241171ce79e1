"""Schemas of saved presets."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from web.http.bodies import Name, Reason
from web.rules.pages import Page

AccessName = Literal["private", "shared", "open"]
"""Visibility of a preset: private to its owner; usable by all; or usable by all and changed by
every operator."""
Description = Annotated[str, Meta(max_length=300)]


class SavedPresetRow(Struct, frozen=True, kw_only=True):
    """A saved preset."""

    uid: str
    """Immutable id; every operation of a preset, a launch and a project accept it in place of the
    name."""
    name: str
    description: str
    access: AccessName
    kind: Literal["fleet", "language"]
    config: dict[str, Any]
    owner: str | None
    """User who created it; null for machines and deleted users."""
    revision: int
    """Revision on which a change must be based."""
    created_at: datetime
    changed_at: datetime
    changed_by: str
    may_change: bool
    """Whether the requester may change and delete it."""


class SavedPresetList(Page[SavedPresetRow], frozen=True, kw_only=True):
    """Saved presets by name."""


class SavePreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A preset to save; `config` overrides the defaults and must not contain secrets."""

    name: Name
    description: Description = ""
    access: AccessName = "private"
    config: dict[str, Any] = {}
    reason: Reason = ""


class ChangePreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a saved preset; omitted fields stay."""

    revision: Annotated[int, Meta(ge=1)]
    """Revision on which the change is based; a conflict with a newer one is refused."""
    description: Description | UnsetType = UNSET
    access: AccessName | UnsetType = UNSET
    config: dict[str, Any] | UnsetType = UNSET
    reason: Reason = ""
