"""Admin pages of batches and their items."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from django.contrib import admin, messages
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import RangeNumericFilter, TextFilter

from buffer.batches.services import lease_expiry
from buffer.batches.services.lease_expiry import NotQuarantined
from buffer.items.models import Batch, BatchUse, FragmentChunk, MixingShare, TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing, content_head
from rolldeck.group_encoding import to_json
from rolldeck.groups import InvalidGroupError, read_msgpack
from rolldeck.wire import Fragment
from runs.lifecycle.models import Environment
from web.admin.decisions import Decision, reason_or_page
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    as_written,
    chosen_by_name,
    is_empty,
    link_to,
    link_to_row,
    linked,
    links_to_lists,
    newest_of,
    register_read_only,
)

# Admin of batches, with actions to release or discard them, and of mixing shares.

RELEASE: Final = Decision(
    title="Requeue these batches?",
    effect="Their items return to the head of the queue and are served again. Batches with an "
    "active lease are skipped.",
    verb="Requeue",
)
DISCARD: Final = Decision(
    title="Discard these batches?",
    effect="Their items are dropped permanently and are not served again. The rows are kept, "
    "with your reason. Batches with an active lease are skipped.",
    verb="Discard",
    destroys=True,
)

register_read_only(
    MixingShare,
    columns="run_link env_id sequences target debt blocks_since",
    ordering=("-run", "env_id"),
    dashboard="/runs/{run}/environments",
)


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """Batches and their leases; actions release or discard quarantined and expired ones."""

    list_display = (
        *("ordinal", "run_link", "kind", "state", "trainer", "fence", "lease_expiries", "items"),
        *("sequences", "leased_at", "lease_expires_at", "settled_at"),
    )
    list_filter = ("kind", "state", RUN_FILTER)
    list_select_related = ("run", "trainer")
    ordering = ("-run", "-ordinal")  # newest runs first; an index has this order
    readonly_fields = ("related_links",)
    dashboard = "/runs/{run}/queue?batch={row.pk}"
    actions = ("release", "discard")

    @admin.display(description="related rows")
    def related_links(self, batch: Batch) -> SafeString:
        model = TrajectoryGroup if batch.kind == ItemKind.GROUPS else FragmentChunk
        items = BatchUse if batch.sampler else model
        links = links_to_lists(items, batch__id__exact=batch.pk)
        return format_html("{} · {} · {}", links, link_to(batch.run), link_to(batch.trainer))

    @admin.action(description="Requeue quarantined or expired batches", permissions=["act"])
    def release(self, request: HttpRequest, chosen: QuerySet[Batch]) -> TemplateResponse | None:
        """Return the items of the selected batches to the head of the queue."""
        reason = reason_or_page(self, request, chosen, RELEASE)
        if not isinstance(reason, str):
            return reason
        self._decide(request, chosen, lease_expiry.release, "returned to the queue", reason=reason)
        return None

    @admin.action(description="Discard quarantined or expired batches", permissions=["act"])
    def discard(self, request: HttpRequest, chosen: QuerySet[Batch]) -> TemplateResponse | None:
        """Drop the items of the selected batches permanently; their rows are kept."""
        reason = reason_or_page(self, request, chosen, DISCARD)
        if not isinstance(reason, str):
            return reason
        self._decide(request, chosen, lease_expiry.discard, "were dropped", reason=reason)
        return None

    def _decide(
        self,
        request: HttpRequest,
        chosen: QuerySet[Batch],
        verb: Callable[..., Batch],
        outcome: str,
        *,
        reason: str,
    ) -> None:
        """Apply `verb` to each batch; warn about batches in a state that it refuses."""
        done = 0
        audit: dict[str, Any] = {"actor": f"user:{request.user}", "reason": reason}
        for batch in chosen:
            try:
                verb(run_id=batch.run_id, batch_id=batch.pk, now=timezone.now(), **audit)
            except NotQuarantined as refusal:
                messages.warning(request, str(refusal))
                continue
            done += 1
            words = f"{verb.__name__}: the items {outcome}" + (f"; {reason}" if reason else "")
            self.audit(request, batch, words)
        if done:
            messages.success(request, f"The items of {done} batches {outcome}.")


# Admin pages of groups, fragments and their uses; a row's payload is previewed, truncated.


class ItemAdmin(ReadOnlyAdmin):
    """Base of the group and fragment pages: tables of millions of rows, newest first."""

    list_filter: tuple[Any, ...] = ("state", is_empty("segment"), RUN_FILTER)
    list_select_related = ("run", "batch")
    ordering = ("-id",)
    readonly_fields: tuple[str, ...] = ("preview", "batch_link")
    may_grow = True
    indexed_filters = ("run__", "batch__id__exact")
    search_help_text = "An id, or the name of a run (its rows with stored bytes)"

    @admin.display(description="batch", ordering="batch")
    def batch_link(self, row: Any) -> SafeString | str:
        if row.batch is None:
            return "-"
        return link_to_row(Batch, row.batch_id, f"batch {row.batch.ordinal}")

    def rows_of_runs(self, queryset: QuerySet[Any], runs: list[int]) -> QuerySet[Any]:
        """Return the run's rows with stored bytes, newest first; only these are indexed."""
        if len(runs) != 1:
            return queryset.none()
        return queryset.filter(run_id=runs[0], segment__isnull=False)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows; with a run filter, only rows with stored bytes, which are indexed."""
        rows = super().get_queryset(request)
        if not any(name.startswith("run__") for name in request.GET):
            return rows
        rows = rows.filter(Q(segment__isnull=False))
        if not self.scans(request):
            return rows
        run = request.GET.get("run__id__exact", "")
        return newest_of(rows.filter(run_id=int(run)) if run.isdigit() else rows)


class BeginsWith(TextFilter):
    """Filter by the beginning of a text: an input without choices, which needs no query."""

    lookup = ""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        del request
        value = (self.value() or "").replace("\x00", "")
        return self.beginning(queryset, value) if value else queryset

    def beginning(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(**{f"{self.lookup}__startswith": value})


class OfEnvironment(BeginsWith):
    """Filter by the name of an environment, or its beginning."""

    title = "environment"
    parameter_name = "environment"

    def beginning(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the groups of the environments whose name begins with a value."""
        same = Environment.objects.filter(run_id=OuterRef("run_id"), env_id=OuterRef("env_id"))
        return rows.filter(Exists(same.filter(wandb_name__startswith=value)))


class OfLesson(BeginsWith):
    """Filter by the name of a lesson, or its beginning; groups have one once they are digested."""

    title = "lesson"
    parameter_name = "lesson"
    lookup = "digest__lesson"


class OfWorker(BeginsWith):
    """Filter by the name of a worker, or its beginning."""

    title = "worker"
    parameter_name = "worker"
    lookup = "digest__worker"


@admin.register(TrajectoryGroup)
class TrajectoryGroupAdmin(ItemAdmin):
    """Groups; the payload is shown decoded and truncated."""

    dashboard = "/runs/{run}/groups/{row.pk}"

    list_filter = (
        *ItemAdmin.list_filter,
        *(OfEnvironment, OfLesson, OfWorker),
        ("score_mean", RangeNumericFilter),
    )
    scanned_filters = ("environment", "lesson", "worker", "score_mean_")
    list_display = (
        *("id", "run_link", "environment_link", "state", "drop_reason", "sequences", "tokens"),
        *("score_mean", "score_std", "received_at", "batch_link"),
    )

    readonly_fields = ("preview", "batch_link", "environment_link")

    @admin.display(description="payload (truncated)")
    def preview(self, row: TrajectoryGroup) -> SafeString:
        return as_written(group_preview(row.pk))

    @admin.display(description="environment", ordering="env_id")
    def environment_link(self, row: TrajectoryGroup) -> SafeString | str:
        if row.env_id is None:
            return "-"
        query = f"run__id__exact={row.run_id}&env_id={row.env_id}"
        address = reverse("admin:runs_environment_changelist")
        return format_html('<a class="text-link" href="{}?{}">{}</a>', address, query, row.env_id)


@admin.register(FragmentChunk)
class FragmentChunkAdmin(ItemAdmin):
    """Fragments; the payload is shown as the names, dtypes and shapes of its arrays."""

    dashboard = "/runs/{run}/fragments/{row.pk}"

    list_display = (
        *("id", "run_link", "slot", "number", "environment", "state", "drop_reason"),
        *("epoch", "version_min", "version_max", "steps", "received_at", "batch_link"),
    )

    @admin.display(description="payload arrays")
    def preview(self, row: FragmentChunk) -> SafeString:
        return as_written(fragment_preview(row.pk))


@admin.register(BatchUse)
class BatchUseAdmin(ReadOnlyAdmin):
    """Fragments in sampled batches."""

    list_display = ("batch_link", "position", "item_id", "importance_weight")
    list_filter = (chosen_by_name("batch__run"),)
    list_select_related = ("batch",)
    ordering = ("-id",)
    run_lookup = "batch__run"
    may_grow = True
    indexed_filters = ("batch__id__exact",)
    batch_link = linked("batch", "batch")


PREVIEW_BYTES: Final = 4096
DECODED_BYTES: Final = 1 << 20


def group_preview(group_id: int) -> str:
    """Return the beginning of a group as JSON."""
    try:
        content = content_head(ItemKind.GROUPS, group_id, PREVIEW_BYTES)
        if content and content[:1] != b"{":  # no message in msgpack begins with a brace
            content = content_head(ItemKind.GROUPS, group_id, DECODED_BYTES)
            content = to_json(read_msgpack(content))
    except PayloadMissing as missing:
        return str(missing)
    except InvalidGroupError:
        return f"{len(content)} bytes or more"
    text = content[:PREVIEW_BYTES].decode(errors="replace")
    return text + (" …" if len(content) >= PREVIEW_BYTES else "")


def fragment_preview(fragment_id: int) -> str:
    """Return the arrays of a fragment by name, dtype and shape."""
    try:
        content = content_head(ItemKind.FRAGMENTS, fragment_id, DECODED_BYTES)
    except PayloadMissing as missing:
        return str(missing)
    try:
        fragment = msgspec.msgpack.decode(content, type=Fragment)
    except msgspec.MsgspecError:
        return f"{len(content)} bytes" if content else "no bytes: dropped on arrival"
    return "; ".join(
        f"{name}: {array.dtype} {list(array.shape)}" for name, array in fragment.arrays.items()
    )
