"""Show batches and their leases, and let people decide about those that hang."""

from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.forms import ActionForm

from buffer import services
from buffer.core.fates import ItemKind
from buffer.models import Batch, BatchUse, FragmentChunk, TrajectoryGroup
from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin, link_to, links_to_lists


class ReasonForm(ActionForm):
    """What every action on batches asks for besides the batches."""

    reason = forms.CharField(
        required=False, max_length=500, widget=forms.TextInput(attrs={"placeholder": "Reason"})
    )


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """Batches and their leases; the actions decide about those that hang or poison."""

    list_display = (
        *("ordinal", "run_link", "kind", "state", "trainer", "fence", "lapses", "items"),
        *("sequences", "leased_at", "lease_expires_at", "settled_at"),
    )
    list_filter = ("kind", "state", RUN_FILTER)
    list_select_related = ("run", "trainer")
    ordering = ("-leased_at",)
    readonly_fields = ("belongings",)
    action_form = ReasonForm
    actions = ("release", "discard")
    EXPLANATIONS: ClassVar[dict[str, str]] = {
        "discard": "Say why in the field beside the action: the items are lost for training.",
    }

    @admin.display(description="belongs to it")
    def belongings(self, batch: Batch) -> SafeString:
        """Return links to the batch's items, to its trainer and to its place on the dashboard."""
        model = TrajectoryGroup if batch.kind == ItemKind.GROUPS else FragmentChunk
        items = BatchUse if batch.sampler else model
        links = links_to_lists(items, batch__id__exact=batch.pk)
        return SafeString(links + " · " + link_to(batch.run) + " · " + link_to(batch.trainer))

    @admin.action(
        description="Requeue what is quarantined, or whose lease expired", permissions=["view"]
    )
    def release(self, request: HttpRequest, chosen: QuerySet[Batch]) -> None:
        """Put the items of the chosen batches back at the head of the queue."""
        self._decide(request, chosen, services.release, "went back to the queue")

    @admin.action(
        description="Discard what is quarantined, or whose lease expired; takes a reason",
        permissions=["view"],
    )
    def discard(self, request: HttpRequest, chosen: QuerySet[Batch]) -> None:
        """Drop the items of the chosen batches for good; their rows stay."""
        if not request.POST.get("reason", "").strip():
            messages.error(request, self.EXPLANATIONS["discard"])
            return
        self._decide(request, chosen, services.discard, "were dropped")

    def _decide(
        self,
        request: HttpRequest,
        chosen: QuerySet[Batch],
        verb: Callable[..., Batch],
        outcome: str,
    ) -> None:
        """Apply `verb` to each batch; say which were not in the state that it takes."""
        done, reason = 0, request.POST.get("reason", "").strip()
        told: dict[str, Any] = {"actor": f"user:{request.user}", "reason": reason}
        for batch in chosen:
            try:
                verb(run_id=batch.run_id, batch_id=batch.pk, now=timezone.now(), **told)
            except services.NotQuarantined as refusal:
                messages.warning(request, str(refusal))
                continue
            done += 1
            words = f"{verb.__name__}: the items {outcome}" + (f"; {reason}" if reason else "")
            self.audit(request, batch, words)
        if done:
            messages.success(request, f"The items of {done} batches {outcome}.")
