"""Show what came in and where it is; payloads are read for one row at a time and in part."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin

from buffer import services
from buffer.models import (
    Batch,
    CaptureSession,
    FragmentChunk,
    IdempotencyRecord,
    Segment,
    Tally,
    TrajectoryGroup,
)
from buffer.selectors import fragment_preview, group_preview

COUNTED_AT_MOST: Final = 10_000
"""Rows of a list that are counted; of a longer one the first pages are shown."""


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages of a table that may be too large to be counted."""

    @cached_property
    def count(self) -> int:
        """Return how many rows there are; one more than are counted if there are more."""
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by().values("pk")[: COUNTED_AT_MOST + 1].count()


class ReadOnlyAdmin(ModelAdmin):
    """Look and filter; never add, change or delete."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    actions: tuple[str, ...] | None = None

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False."""
        return False


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """Batches and their leases; the actions decide about those in quarantine."""

    list_display = (
        "id",
        "run",
        "ordinal",
        "kind",
        "state",
        "trainer",
        "fence",
        "items",
        "sequences",
        "leased_at",
    )
    list_filter = ("kind", "state")
    list_select_related = ("run", "trainer")
    ordering = ("-leased_at",)
    actions = ("release", "discard")

    @admin.action(
        description="Release from quarantine: queue the items again", permissions=["view"]
    )
    def release(self, request: HttpRequest, chosen: QuerySet[Batch]) -> None:
        """Put the items of the chosen batches back at the head of the queue."""
        _decide(request, chosen, services.release, "went back to the queue")

    @admin.action(
        description="Discard from quarantine: drop the items as poison", permissions=["view"]
    )
    def discard(self, request: HttpRequest, chosen: QuerySet[Batch]) -> None:
        """Drop the items of the chosen batches for good; their rows stay."""
        _decide(request, chosen, services.discard, "were dropped as poison")


def _decide(
    request: HttpRequest, chosen: QuerySet[Batch], verb: Callable[..., Batch], outcome: str
) -> None:
    """Apply `verb` to each quarantined batch; say which were not in quarantine."""
    done = 0
    for batch in chosen:
        try:
            verb(
                run_id=batch.run_id,
                batch_id=batch.pk,
                actor=f"user:{request.user}",
                now=timezone.now(),
            )
            done += 1
        except services.NotQuarantined as refusal:
            messages.warning(request, str(refusal))
    if done:
        messages.success(request, f"The items of {done} batches {outcome}.")


@admin.register(TrajectoryGroup)
class TrajectoryGroupAdmin(ReadOnlyAdmin):
    """Groups; the payload is shown decoded, cut to its first part."""

    list_display = (
        "id",
        "run",
        "env_id",
        "state",
        "drop_reason",
        "sequences",
        "tokens",
        "score_mean",
        "score_std",
        "received_at",
    )
    list_filter = ("state",)
    list_select_related = ("run",)
    ordering = ("-id",)
    readonly_fields = ("preview",)

    @admin.display(description="payload, first part")
    def preview(self, row: TrajectoryGroup) -> str:
        """Return the first part of the group as it is served."""
        return group_preview(row.pk)


@admin.register(FragmentChunk)
class FragmentChunkAdmin(ReadOnlyAdmin):
    """Fragments; the payload is shown as the names, dtypes and shapes of its arrays."""

    list_display = (
        "id",
        "run",
        "slot",
        "number",
        "environment",
        "state",
        "drop_reason",
        "epoch",
        "version_min",
        "version_max",
        "steps",
        "received_at",
    )
    list_filter = ("state",)
    list_select_related = ("run",)
    ordering = ("-id",)
    readonly_fields = ("preview",)

    @admin.display(description="payload, its arrays")
    def preview(self, row: FragmentChunk) -> str:
        """Return what arrays the fragment holds."""
        return fragment_preview(row.pk)


@admin.register(Segment)
class SegmentAdmin(ReadOnlyAdmin):
    """Where payloads are, and when they go."""

    list_display = (
        "number",
        "opened_at",
        "sealed_at",
        "dropped_at",
        "cleared_at",
        "items",
        "size_bytes",
    )
    ordering = ("-number",)


@admin.register(Tally)
class TallyAdmin(ReadOnlyAdmin):
    """Counts, shard by shard."""

    list_display = (
        "run",
        "kind",
        "fate",
        "reason",
        "epoch",
        "env_id",
        "size",
        "shard",
        "items",
        "sequences",
    )
    list_filter = ("kind", "fate")
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(ReadOnlyAdmin):
    """Keys of pushes and what they were answered."""

    list_display = ("key", "run", "created_at")
    list_select_related = ("run",)
    ordering = ("-created_at",)


@admin.register(CaptureSession)
class CaptureSessionAdmin(ReadOnlyAdmin):
    """Sessions whose calls a proxy captured."""

    list_display = ("name", "run", "state", "calls", "size_bytes", "score", "changed_at")
    list_filter = ("state",)
    list_select_related = ("run",)
    search_fields = ("name",)
    ordering = ("-changed_at",)
