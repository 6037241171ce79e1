"""Admin of events."""

from django.contrib import admin

from runs.events.models import RunEvent
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    """Events: actor, action, time and reason."""

    list_display = ("at", "run_link", "level", "kind", "message", "actor", "reason")
    list_select_related = ("run",)
    list_filter = ("level", RUN_FILTER)
    may_grow = True
    dashboard = "/audit?run={run}"
    ordering = ("-id",)
