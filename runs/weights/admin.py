"""Admin of policy versions and weights commands."""

from django.contrib import admin

from runs.lifecycle.models.runs import PolicyVersion
from runs.weights.models import WeightsOrder
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """Published weights; the API serves their files."""

    list_display = ("__str__", "run_link", "epoch", "step", "size_bytes", "published_at")
    list_select_related = ("run",)
    list_filter = (RUN_FILTER, "published_at")
    dashboard = "/runs/{run}/weights"
    search_fields = ("run__name", "sha256")
    ordering = ("-id",)
    exclude = ("file",)


@admin.register(WeightsOrder)
class WeightsOrderAdmin(ReadOnlyAdmin):
    """Weights commands: pins, unpins and reloads."""

    list_display = ("at", "run_link", "number", "kind", "pinned_step", "actor", "reason")
    list_select_related = ("run",)
    list_filter = ("kind", RUN_FILTER)
    dashboard = "/runs/{run}/weights"
    ordering = ("-id",)
