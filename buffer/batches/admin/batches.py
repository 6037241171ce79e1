"""Admin of batches, with actions to release or discard them, and of mixing shares."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from buffer.batches.services import lease_expiry
from buffer.batches.services.lease_expiry import NotQuarantined
from buffer.items.models.items import Batch, BatchUse, FragmentChunk, MixingShare, TrajectoryGroup
from buffer.items.rules.states import ItemKind
from web.admin.decisions import Decision, reason_or_page
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    link_to,
    links_to_lists,
    register_read_only,
)

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
        """Return links to the batch's items, run and trainer."""
        model = TrajectoryGroup if batch.kind == ItemKind.GROUPS else FragmentChunk
        items = BatchUse if batch.sampler else model
        links = links_to_lists(items, batch__id__exact=batch.pk)
        return SafeString(links + " · " + link_to(batch.run) + " · " + link_to(batch.trainer))

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
