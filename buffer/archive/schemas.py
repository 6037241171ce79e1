"""API schemas of archives and restorations."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from web.rules.pages import Page


class CreateArchive(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Served and dropped items to archive; an omitted field selects all."""

    states: Annotated[list[Literal["served", "dropped"]], Meta(max_length=2)] = []
    steps: Annotated[str, Meta(max_length=32)] = ""
    """Served steps as ``first:last``, inclusive; either end may be omitted."""
    env_ids: Annotated[list[int], Meta(max_length=1024)] | None = None


class RestoreArchive(CreateArchive, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An archive to restore, and a selection of its items."""

    archive: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class ArchiveRow(Struct, frozen=True, kw_only=True):
    """An archive job: an export, or a restoration into a run."""

    id: int
    verb: Literal["export", "restore"]
    source: int | None
    """Id of the restored archive; null for exports."""
    state: Literal["queued", "working", "done", "failed", "expired"]
    window: dict[str, Any]
    report: dict[str, Any]
    """Item counts so far."""
    error: str
    has_file: bool
    asked_by: str
    created_at: datetime
    finished_at: datetime | None


class ArchiveList(Page[ArchiveRow], frozen=True, kw_only=True):
    """Archives, newest first."""
