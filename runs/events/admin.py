"""Admin of events: the audit log."""

from django.contrib import admin

from runs.events.models import RunEvent
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin, between_days, equal_to


@admin.register(RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    """The audit log: events of all runs and of the deployment, newest first."""

    list_display = ("at", "actor", "run_link", "kind", "message", "reason", "level")
    list_filter = (equal_to("actor"), equal_to("kind"), RUN_FILTER, between_days("at"), "level")
    list_select_related = ("run",)
    search_fields = ("message", "reason", "request_id")
    search_help_text = "A part of a message, a reason or a request ID"
    ordering = ("-id",)
    dashboard = "/runs/{run}/logs"
    may_grow = True
    indexed_filters = (*ReadOnlyAdmin.indexed_filters, "actor", "kind")
