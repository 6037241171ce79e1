"""Schemas of projects."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from web.http.bodies import Name, Reason
from web.rules.pages import Page

Title = Annotated[str, Meta(max_length=120)]
Description = Annotated[str, Meta(max_length=2000)]
PresetName = Annotated[str, Meta(max_length=80)]
Tags = Annotated[list[str], Meta(max_length=20)]


class ProjectDefaults(Struct, frozen=True, kw_only=True):
    """Defaults of the runs that are launched in a project."""

    preset: str
    """Preset of a launch that names none; empty for the general defaults."""
    config: dict[str, Any]
    """Fields of a RunConfig, merged over the preset and under the fields of the launch."""
    tags: list[str]
    """Tags of a launch that gives none."""


class ProjectRow(Struct, frozen=True, kw_only=True):
    """A project."""

    uid: str
    """Immutable id; every operation of a project accepts it in place of the name."""
    name: str
    title: str
    description: str
    defaults: ProjectDefaults
    runs: int
    """Runs in the project that are not archived."""
    created_at: datetime
    created_by: str
    """User or token."""
    changed_at: datetime
    archived_at: datetime | None


class ProjectList(Page[ProjectRow], frozen=True, kw_only=True):
    """Projects by name."""


class GivenDefaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults to set; omitted ones stay."""

    preset: PresetName | UnsetType = UNSET
    """Name or id of a preset."""
    config: dict[str, Any] | UnsetType = UNSET
    """Replaces the whole default configuration."""
    tags: Tags | UnsetType = UNSET


class CreateProject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project to create."""

    name: Name
    title: Title = ""
    description: Description = ""
    defaults: GivenDefaults = GivenDefaults()
    reason: Reason = ""


class ChangeProject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a project; omitted fields stay."""

    name: Name | UnsetType = UNSET
    """New name; its runs stay in it."""
    title: Title | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    defaults: GivenDefaults = GivenDefaults()
    archived: bool | UnsetType = UNSET
    """Whether it is archived: runs stay in it, and none can be added."""
    reason: Reason = ""
