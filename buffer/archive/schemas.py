"""Shape what is asked and answered about archives."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class AskArchive(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which settled items an archive holds; what is left out means all."""

    states: Annotated[list[Literal["served", "dropped"]], Meta(max_length=2)] = []
    steps: Annotated[str, Meta(max_length=32)] = ""
    """Served steps as ``first:last``, both inside; either may be left out."""
    env_ids: Annotated[list[int], Meta(max_length=1024)] | None = None


class AskRestoration(AskArchive, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which archive is restored, and which of its items."""

    archive: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class ArchiveRow(Struct, frozen=True, kw_only=True):
    """An archive that was asked for, or its restoration into a run."""

    id: int
    verb: Literal["export", "restore"]
    source: int | None
    """Of a restoration: the archive."""
    state: Literal["queued", "working", "done", "failed", "expired"]
    window: dict[str, Any]
    report: dict[str, Any]
    """Counts, as far as it is."""
    error: str
    has_file: bool
    asked_by: str
    created_at: datetime
    finished_at: datetime | None


class ArchiveList(Struct, frozen=True, kw_only=True):
    """Archives, newest first."""

    results: list[ArchiveRow]
