"""Shape presets that people save."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from runs.wire import Name, Reason

AccessName = Literal["private", "shared", "open"]
"""Whose a preset is: mine alone, everybody's to use, everybody's to use and every operator's to
change."""
Description = Annotated[str, Meta(max_length=300)]


class SavedPresetRow(Struct, frozen=True, kw_only=True):
    """A configuration that somebody saved."""

    name: str
    description: str
    access: AccessName
    kind: Literal["fleet", "language"]
    config: dict[str, Any]
    owner: str | None
    """Who saved it first; null for a machine, or somebody who is gone."""
    revision: int
    """Which one a change begins from."""
    created_at: datetime
    changed_at: datetime
    changed_by: str
    may_change: bool
    """Whether whoever asks may change and delete it."""


class SavedPresetList(Struct, frozen=True, kw_only=True):
    """Saved presets by name."""

    results: list[SavedPresetRow]


class SavePreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A configuration to keep; `config` is laid over the defaults, and no secret may be in it."""

    name: Name
    description: Description = ""
    access: AccessName = "private"
    config: dict[str, Any] = {}
    reason: Reason = ""


class ChangePreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a saved preset; what is left out stays."""

    revision: Annotated[int, Meta(ge=1)]
    """That was looked at: who changed it meanwhile is not overwritten."""
    description: Description | UnsetType = UNSET
    access: AccessName | UnsetType = UNSET
    config: dict[str, Any] | UnsetType = UNSET
    reason: Reason = ""
