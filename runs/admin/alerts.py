"""Show what was wrong, who was at it, and whom it was told."""

from django.contrib import admin

from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin
from runs.models import Alert, AlertDelivery


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts; they are acknowledged and resolved on the dashboard, where that is audited."""

    list_display = (
        "first_seen_at",
        "severity",
        "state",
        "kind",
        "run_link",
        "message",
        "times_seen",
        "cleared_at",
    )
    list_select_related = ("run",)
    list_filter = ("state", "severity", "kind", RUN_FILTER)
    may_grow = True
    dashboard = "/alerts"
    ordering = ("-id",)


@admin.register(AlertDelivery)
class AlertDeliveryAdmin(ReadOnlyAdmin):
    """What webhooks were told of alerts, and what they answered."""

    list_display = (
        "created_at",
        "target",
        "change",
        "state",
        "attempts",
        "last_status",
        "last_error",
        "settled_at",
    )
    list_filter = ("state", "change")
    dashboard = "/alerts"
    run_lookup = "alert__run"
    search_fields: tuple[str, ...] = ("target", "alert__message")
    search_help_text = "A webhook's host, or a part of an alert's message"
    ordering = ("-id",)
