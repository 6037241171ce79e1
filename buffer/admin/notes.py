"""Admin pages of segments, tallies, idempotency keys, archives, followers and captures."""

from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from buffer import services
from buffer.core.archive_window import Window
from buffer.models import (
    ArchiveJob,
    Batch,
    BatchUse,
    CapturedCall,
    CaptureSession,
    DigestCursor,
    Follower,
    FragmentChunk,
    GroupDigest,
    IdempotencyRecord,
    LedgerAudit,
    MixingShare,
    Segment,
    Tally,
    TrajectoryGroup,
    UnansweredPush,
)
from runs.admin.decisions import Decision, reason_or_page
from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin, link_to
from runs.admin.rows import EnvironmentAdmin, RunAdmin, TrainerAdmin
from runs.models import Run

RunAdmin.belonging += [
    *(Batch, TrajectoryGroup, FragmentChunk, Tally, MixingShare, ArchiveJob, Follower),
    CaptureSession,
]
TrainerAdmin.belonging += [Batch]
EnvironmentAdmin.belonging += [TrajectoryGroup, Tally, MixingShare]


EXPORT: Final = Decision(
    title="Export these runs?",
    effect="A job archives the served and dropped items of each run. The runs do not change.",
    verb="Export",
)


@admin.action(description="Export served and dropped items to an archive", permissions=["act"])
def export(
    run_admin: RunAdmin, request: HttpRequest, chosen: QuerySet[Run]
) -> TemplateResponse | None:
    """Request an archive of each selected run; a job writes it."""
    reason = reason_or_page(run_admin, request, chosen, EXPORT)
    if not isinstance(reason, str):
        return reason
    for run in chosen:
        try:
            services.ask_for_archive(
                run=run, window=Window(), asked_by=f"user:{request.user}", now=timezone.now()
            )
        except services.TooManyArchives as refusal:
            messages.warning(request, f"{run.name}: {refusal}")
            continue
        run_admin.audit(request, run, "requested an archive" + (f"; {reason}" if reason else ""))
        messages.success(request, f"An archive of {run.name} is being written.")
    return None


RunAdmin.actions = (*(RunAdmin.actions or ()), export)


class RunlessAdmin(ReadOnlyAdmin):
    """Base of admin pages whose rows belong to no run."""

    search_fields: tuple[str, ...] = ()


@admin.register(Segment)
class SegmentAdmin(RunlessAdmin):
    """Payload segments and their lifecycle."""

    list_display = (
        "number",
        "opened_at",
        "sealed_at",
        "dropped_at",
        "cleared_at",
        "items",
        "size_bytes",
    )
    list_filter = (
        ("sealed_at", admin.EmptyFieldListFilter),
        ("dropped_at", admin.EmptyFieldListFilter),
    )
    ordering = ("-number",)


@admin.register(Tally)
class TallyAdmin(ReadOnlyAdmin):
    """Item counts, one row per shard."""

    list_display = (
        "run_link",
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
    list_filter = ("kind", "fate", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(ReadOnlyAdmin):
    """Idempotency keys of pushes."""

    list_display = ("key", "run_link", "created_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-created_at", "pk")


@admin.register(CaptureSession)
class CaptureSessionAdmin(ReadOnlyAdmin):
    """Sessions captured by a proxy."""

    list_display = ("name", "run_link", "state", "calls", "size_bytes", "score", "changed_at")
    list_filter = ("state", RUN_FILTER)
    list_select_related = ("run",)
    search_fields = ("name", "run__name")
    search_help_text = "Name of a session or of its run"
    ordering = ("-changed_at",)


@admin.register(CapturedCall)
class CapturedCallAdmin(ReadOnlyAdmin):
    """Calls of captured sessions; their content is in the resulting group."""

    list_display = ("session", "number", "key", "at")
    list_filter = (("session", AutocompleteSelectFilter),)
    list_select_related = ("session",)
    search_fields = ("session__name",)
    search_help_text = "Name of a session"
    ordering = ("-id",)
    exclude = ("content",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[CapturedCall]:
        """Return the rows without their content."""
        return super().get_queryset(request).defer("content")


@admin.register(ArchiveJob)
class ArchiveJobAdmin(ReadOnlyAdmin):
    """Archive jobs and their progress."""

    list_display = ("id", "run_link", "verb", "state", "asked_by", "created_at", "finished_at")
    list_filter = ("verb", "state", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Follower)
class FollowerAdmin(ReadOnlyAdmin):
    """Followers and their cursors."""

    list_display = ("name", "run_link", "environment", "min_score", "cursor_id", "acked_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(MixingShare)
class MixingShareAdmin(ReadOnlyAdmin):
    """Served sequences, target share and debt of each environment."""

    list_display = ("run_link", "env_id", "sequences", "target", "debt", "blocks_since")
    dashboard = "/runs/{run}/environments"
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-run", "env_id")


@admin.register(BatchUse)
class BatchUseAdmin(ReadOnlyAdmin):
    """Fragments in sampled batches."""

    list_display = ("batch_link", "position", "item_id", "importance_weight")
    list_filter = (("batch__run", AutocompleteSelectFilter),)
    list_select_related = ("batch",)
    ordering = ("-id",)
    run_lookup = "batch__run"
    may_grow = True

    @admin.display(description="batch", ordering="batch")
    def batch_link(self, row: BatchUse) -> SafeString | str:
        """Return a link to the batch."""
        return link_to(row.batch)

    def _looks_through(self, request: HttpRequest) -> bool:
        return super()._looks_through(request) and "batch__id__exact" not in request.GET


@admin.register(LedgerAudit)
class LedgerAuditAdmin(ReadOnlyAdmin):
    """Last comparison of each run's counts with its rows."""

    list_display = ("run_link", "audited_at", "took_seconds")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-audited_at", "pk")


@admin.register(UnansweredPush)
class UnansweredPushAdmin(ReadOnlyAdmin):
    """Pushes whose client may not have received the answer."""

    list_display = ("__str__", "run_link", "sender", "accepted_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-pk",)


@admin.register(GroupDigest)
class GroupDigestAdmin(ReadOnlyAdmin):
    """Group digests, from which lists and searches are served."""

    list_display = ("group_id", "run_link", "lesson", "worker", "truncated", "duplicates")
    list_filter = (("lesson", admin.EmptyFieldListFilter),)
    search_help_text = "The id of a group"
    dashboard = "/runs/{run}/groups/{row.pk}"
    list_select_related = ("run",)
    ordering = ("-pk",)
    exclude = ("words",)
    may_grow = True

    def rows_of_runs(self, queryset: QuerySet[Any], runs: list[int]) -> QuerySet[Any]:
        """Return no rows: no index orders a run's digests; use the list of its groups."""
        del runs
        return queryset.none()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows without their search words."""
        return super().get_queryset(request).defer("words")


@admin.register(DigestCursor)
class DigestCursorAdmin(ReadOnlyAdmin):
    """Digest progress of each run."""

    list_display = ("run_link", "item_id", "accepted", "digested_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-pk",)
