"""Admin of the data between sampling and training; batches and items have their own module."""

from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone

from buffer.archive.models import ArchiveJob
from buffer.archive.rules import Window
from buffer.archive.services.archive_jobs import TooManyArchives, request_archive
from buffer.batches import admin as _batches  # noqa: F401 registers the models of batches
from buffer.capture.models import CapturedCall, CaptureSession
from buffer.followers.models import Follower
from buffer.ingest.models import IdempotencyRecord, UnansweredPush
from buffer.inspect.models import DigestCursor, GroupDigest, GroupMark
from buffer.items.models import (
    Batch,
    FragmentChunk,
    LedgerAudit,
    MixingShare,
    ShortGroup,
    Tally,
    TrajectoryGroup,
)
from buffer.payloads.models import Segment
from buffer.problems.models import LessonProblem
from buffer.tensors.models import StoredTensor, TensorObject
from buffer.tokenizers.models import RunTokenizer, TokenizerFile
from runs.lifecycle.admin import EnvironmentAdmin, RunAdmin, TrainerAdmin
from runs.lifecycle.models import Run
from web.admin.decisions import Decision, reason_or_page
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    chosen_by_name,
    is_empty,
    register_read_only,
)

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
            request_archive(
                run=run, window=Window(), asked_by=f"user:{request.user}", now=timezone.now()
            )
        except TooManyArchives as refusal:
            messages.warning(request, f"{run.name}: {refusal}")
            continue
        run_admin.audit(request, run, "requested an archive" + (f"; {reason}" if reason else ""))
        messages.success(request, f"An archive of {run.name} is being written.")
    return None


RunAdmin.actions = (*(RunAdmin.actions or ()), export)

register_read_only(
    ArchiveJob,
    columns="id run_link verb state asked_by created_at finished_at",
    filters=("verb", "state", RUN_FILTER),
)


register_read_only(
    CaptureSession,
    columns="name run_link state calls size_bytes score changed_at",
    filters=("state", RUN_FILTER),
    search_fields=("name", "run__name"),
    search_help="Name of a session or of its run",
    ordering=("-changed_at",),
)
# The content of a call is in the resulting group.
register_read_only(
    CapturedCall,
    columns="session number key at",
    filters=(chosen_by_name("session"),),
    search_fields=("session__name",),
    search_help="Name of a session",
    joins=("session",),
    hidden=("content",),
    run_lookup="",
)


register_read_only(Follower, columns="name run_link environment min_score cursor_id acked_at")


register_read_only(
    IdempotencyRecord, columns="key run_link created_at", ordering=("-created_at", "pk")
)
register_read_only(
    UnansweredPush,
    columns="__str__ run_link accepted_at answered_at client_left",
    ordering=("-pk",),
)


RunAdmin.belonging += [GroupMark]

register_read_only(
    GroupMark,
    columns="group_id run_link tags changed_by changed_at",
    filters=(RUN_FILTER,),
    search_help="The id of a group",
    ordering=("-pk",),
    dashboard="/runs/{run}/groups/{row.pk}",
    may_grow=True,
)
register_read_only(DigestCursor, columns="run_link item_id accepted digested_at", ordering=("-pk",))


@admin.register(GroupDigest)
class GroupDigestAdmin(ReadOnlyAdmin):
    """Group digests, from which lists and searches are served."""

    list_display = ("group_id", "run_link", "lesson", "worker", "truncated", "duplicates")
    list_filter = (is_empty("lesson"),)
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


register_read_only(
    LessonProblem,
    columns="run_link lesson number state attempts reason worker leased_at group",
    filters=("state", RUN_FILTER),
    dashboard="/runs/{run}/curriculum",
)
register_read_only(
    ShortGroup,
    columns="run_link at environment example failed refilled is_kept",
    filters=("is_kept", RUN_FILTER),
)
register_read_only(
    Tally,
    columns="run_link kind state reason epoch env_id size shard items sequences",
    filters=("kind", "state", RUN_FILTER),
)
register_read_only(
    LedgerAudit, columns="run_link audited_at took_seconds", ordering=("-audited_at", "pk")
)


register_read_only(
    Segment,
    columns="number opened_at sealed_at dropped_at cleared_at items size_bytes",
    filters=(is_empty("sealed_at"), is_empty("dropped_at")),
    ordering=("-number",),
    run_lookup="",
)


register_read_only(
    TokenizerFile,
    columns="sha256 tokens size_bytes created_at",
    filters=("created_at",),
    search_fields=("sha256",),
    search_help="SHA-256 of a file",
    ordering=("sha256",),
    run_lookup="",
    hidden=("content", "texts"),
)
register_read_only(
    RunTokenizer,
    columns="run_link file set_by set_at",
    filters=(RUN_FILTER,),
    search_fields=("run__name",),
    search_help="Name of a run",
    ordering=("-pk",),
)
register_read_only(
    TensorObject,
    columns="name run_link size_bytes created_at",
    filters=(RUN_FILTER,),
    search_fields=("name", "run__name"),
    search_help="Name of an object or of its run",
    ordering=("-pk",),
    hidden=("content",),
)
register_read_only(
    StoredTensor,
    columns="key run_link dtype shape size_bytes",
    filters=(RUN_FILTER,),
    search_fields=("key", "run__name"),
    search_help="Key of a tensor, or name of its run",
    joins=("object",),
)


RunAdmin.belonging += [
    *(Batch, TrajectoryGroup, FragmentChunk, Tally, ShortGroup, MixingShare, ArchiveJob, Follower),
    CaptureSession,
    StoredTensor,
]
TrainerAdmin.belonging += [Batch]
EnvironmentAdmin.belonging += [TrajectoryGroup, Tally, MixingShare]
