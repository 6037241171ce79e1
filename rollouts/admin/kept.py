"""Admin pages of layouts, comparisons, denied environments and cordons."""

from django.contrib import admin

from rollouts.models import Comparison, DeniedEnvironment, MachineCordon, MetricLayout
from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(MetricLayout)
class MetricLayoutAdmin(ReadOnlyAdmin):
    """Metric layouts of users."""

    list_display = ("name", "owner", "run_link", "tag", "changed_at", "changed_by")
    list_select_related = ("run",)
    list_filter = ("tag", RUN_FILTER)
    search_fields: tuple[str, ...] = ("name", "owner")
    search_help_text = "Part of a layout's name or owner"
    ordering = ("name",)


@admin.register(Comparison)
class ComparisonAdmin(ReadOnlyAdmin):
    """Saved comparisons of runs."""

    dashboard = "/compare"
    list_display = ("name", "created_by", "created_at")
    list_filter = ("created_at",)
    exclude = ("remarks",)
    search_fields: tuple[str, ...] = ("name", "created_by")
    ordering = ("-id",)


@admin.register(DeniedEnvironment)
class DeniedEnvironmentAdmin(ReadOnlyAdmin):
    """Specs denied to new runs."""

    dashboard = "/environments"
    list_display = ("spec", "reason", "denied_by", "denied_at")
    list_filter = ("denied_at",)
    search_fields: tuple[str, ...] = ("spec", "denied_by")
    search_help_text = "Part of a spec or of the administrator's name"
    ordering = ("spec",)


@admin.register(MachineCordon)
class MachineCordonAdmin(ReadOnlyAdmin):
    """Cordoned machines; they are cordoned on *Cluster*."""

    dashboard = "/cluster"
    list_display = ("host", "node", "reason", "cordoned_by", "cordoned_at")
    list_filter = ("cordoned_at",)
    search_fields: tuple[str, ...] = ("host", "node", "cordoned_by")
    search_help_text = "Part of a machine's name, its id or the administrator's name"
    ordering = ("node",)
