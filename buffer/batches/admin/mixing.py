"""Admin of mixing shares and sampled batches."""

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from buffer.items.models.items import MixingShare
from buffer.items.models.uses import BatchUse
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin, link_to


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
