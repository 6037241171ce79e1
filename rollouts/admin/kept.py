"""Show what people keep and decide beside their runs: layouts, comparisons, verdicts, cordons."""

from django.contrib import admin

from rollouts.models import Comparison, DeniedEnvironment, MachineCordon, MetricLayout
from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(MetricLayout)
class MetricLayoutAdmin(ReadOnlyAdmin):
    """How people like to look at the metrics of runs."""

    list_display = ("name", "owner", "run_link", "tag", "changed_at", "changed_by")
    list_select_related = ("run",)
    list_filter = ("tag", RUN_FILTER)
    search_fields: tuple[str, ...] = ("name", "owner")
    search_help_text = "A part of a layout's name, or of whose it is"
    ordering = ("name",)


@admin.register(Comparison)
class ComparisonAdmin(ReadOnlyAdmin):
    """Comparisons of runs that people keep."""

    dashboard = "/compare"
    list_display = ("name", "created_by", "created_at")
    list_filter = ("created_at",)
    exclude = ("remarks",)
    search_fields: tuple[str, ...] = ("name", "created_by")
    ordering = ("-id",)


@admin.register(DeniedEnvironment)
class DeniedEnvironmentAdmin(ReadOnlyAdmin):
    """Specs that no new run may ask for."""

    dashboard = "/environments"
    list_display = ("spec", "reason", "denied_by", "denied_at")
    list_filter = ("denied_at",)
    search_fields: tuple[str, ...] = ("spec", "denied_by")
    search_help_text = "A part of a spec, or of who denied it"
    ordering = ("spec",)


@admin.register(MachineCordon)
class MachineCordonAdmin(ReadOnlyAdmin):
    """Machines of the cluster that shall be empty; they are cordoned on *Cluster*."""

    dashboard = "/cluster"
    list_display = ("host", "node", "reason", "cordoned_by", "cordoned_at")
    list_filter = ("cordoned_at",)
    search_fields: tuple[str, ...] = ("host", "node", "cordoned_by")
    search_help_text = "A part of a machine's name or id, or of who cordoned it"
    ordering = ("node",)
