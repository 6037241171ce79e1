"""Show what the platform notes about the data: counts, keys, archives, followers, captures."""

from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from buffer.archive.models import ArchiveJob
from buffer.archive.rules import Window
from buffer.archive.services.archive_jobs import TooManyArchives, ask_for_archive
from buffer.capture.models import CapturedCall, CaptureSession
from buffer.ingest.models import IdempotencyRecord, UnansweredPush
from buffer.inspect.models.digests import DigestCursor, GroupDigest
from buffer.items.models.audits import LedgerAudit
from buffer.items.models.items import Batch, FragmentChunk, MixingShare, Tally, TrajectoryGroup
from buffer.payloads.models import Segment
from buffer.replay.models import BatchUse, Follower
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
    effect="A job writes an archive of all that is settled of each. Nothing of the runs changes.",
    verb="Export",
)


@admin.action(description="Export: write an archive of all that is settled", permissions=["act"])
def export(
    run_admin: RunAdmin, request: HttpRequest, chosen: QuerySet[Run]
) -> TemplateResponse | None:
    """Ask for an archive of each chosen run; a job writes it."""
    reason = reason_or_page(run_admin, request, chosen, EXPORT)
    if not isinstance(reason, str):
        return reason
    for run in chosen:
        try:
            ask_for_archive(
                run=run, window=Window(), asked_by=f"user:{request.user}", now=timezone.now()
            )
        except TooManyArchives as refusal:
            messages.warning(request, f"{run.name}: {refusal}")
            continue
        run_admin.audit(request, run, "asked for an archive" + (f"; {reason}" if reason else ""))
        messages.success(request, f"An archive of {run.name} is being written.")
    return None


RunAdmin.actions = (*(RunAdmin.actions or ()), export)


class RunlessAdmin(ReadOnlyAdmin):
    """Rows that belong to no run."""

    search_fields: tuple[str, ...] = ()


@admin.register(Segment)
class SegmentAdmin(RunlessAdmin):
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
    list_filter = (
        ("sealed_at", admin.EmptyFieldListFilter),
        ("dropped_at", admin.EmptyFieldListFilter),
    )
    ordering = ("-number",)


@admin.register(Tally)
class TallyAdmin(ReadOnlyAdmin):
    """Counts, shard by shard."""

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
    """Keys of pushes and what they were answered."""

    list_display = ("key", "run_link", "created_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-created_at", "pk")


@admin.register(CaptureSession)
class CaptureSessionAdmin(ReadOnlyAdmin):
    """Sessions whose calls a proxy captured."""

    list_display = ("name", "run_link", "state", "calls", "size_bytes", "score", "changed_at")
    list_filter = ("state", RUN_FILTER)
    list_select_related = ("run",)
    search_fields = ("name", "run__name")
    search_help_text = "Name of a session or of its run"
    ordering = ("-changed_at",)


@admin.register(CapturedCall)
class CapturedCallAdmin(ReadOnlyAdmin):
    """Calls of captured sessions; what was said is in the group that they became."""

    list_display = ("session", "number", "key", "at")
    list_filter = (("session", AutocompleteSelectFilter),)
    list_select_related = ("session",)
    search_fields = ("session__name",)
    search_help_text = "Name of a session"
    ordering = ("-id",)
    exclude = ("content",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[CapturedCall]:
        """Return the rows without their bytes."""
        return super().get_queryset(request).defer("content")


@admin.register(ArchiveJob)
class ArchiveJobAdmin(ReadOnlyAdmin):
    """Archives that were asked for, and how far they are."""

    list_display = ("id", "run_link", "verb", "state", "asked_by", "created_at", "finished_at")
    list_filter = ("verb", "state", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Follower)
class FollowerAdmin(ReadOnlyAdmin):
    """Named readers, and where they are."""

    list_display = ("name", "run_link", "environment", "min_score", "cursor_id", "acked_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(MixingShare)
class MixingShareAdmin(ReadOnlyAdmin):
    """What batches gave each environment, and what they owe it."""

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
    """When counts were last compared with rows."""

    list_display = ("run_link", "audited_at", "took_seconds")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-audited_at", "pk")


@admin.register(UnansweredPush)
class UnansweredPushAdmin(ReadOnlyAdmin):
    """Pushes whose answer may not have arrived."""

    list_display = ("__str__", "run_link", "sender", "accepted_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-pk",)


@admin.register(GroupDigest)
class GroupDigestAdmin(ReadOnlyAdmin):
    """What lists and searches know of groups."""

    list_display = ("group_id", "run_link", "lesson", "worker", "truncated", "duplicates")
    list_filter = (("lesson", admin.EmptyFieldListFilter),)
    search_help_text = "The id of a group"
    dashboard = "/runs/{run}/groups/{row.pk}"
    list_select_related = ("run",)
    ordering = ("-pk",)
    exclude = ("words",)
    may_grow = True

    def rows_of_runs(self, queryset: QuerySet[Any], runs: list[int]) -> QuerySet[Any]:
        """Return none: no index gives the newest of a run; the list of its groups does."""
        del runs
        return queryset.none()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows without their words."""
        return super().get_queryset(request).defer("words")


@admin.register(DigestCursor)
class DigestCursorAdmin(ReadOnlyAdmin):
    """How far the groups of runs are digested."""

    list_display = ("run_link", "item_id", "accepted", "digested_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-pk",)
