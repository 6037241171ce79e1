"""Admin of alerts, deliveries, rules and silences."""

from django.contrib import admin

from runs.alerts.models.alert_rules import AlertRule, AlertSilence
from runs.alerts.models.alerts import Alert, AlertDelivery
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts; use the dashboard to acknowledge and resolve them, which is audited."""

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
    """Alert deliveries to webhooks and mailboxes, with their responses."""

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
    search_help_text = "A webhook's host, a mail address, or a part of an alert's message"
    ordering = ("-id",)


@admin.register(AlertRule)
class AlertRuleAdmin(ReadOnlyAdmin):
    """Alert rules; use the dashboard to change them, which is audited."""

    list_display = (
        "name",
        "metric",
        "comparator",
        "threshold",
        "for_seconds",
        "severity",
        "is_enabled",
        "run_link",
        "run_filter",
        "changed_by",
    )
    list_select_related = ("run",)
    list_filter = ("is_enabled", "severity", RUN_FILTER)
    search_fields: tuple[str, ...] = ("name", "metric")
    search_help_text = "A part of a rule's name or metric"
    dashboard = "/alerts?view=rules"
    ordering = ("name",)


@admin.register(AlertSilence)
class AlertSilenceAdmin(ReadOnlyAdmin):
    """Silences of alerts."""

    list_display = (
        "kind",
        "rule",
        "run_link",
        "until",
        "reason",
        "created_by",
        "ended_at",
        "ended_by",
    )
    list_select_related = ("run", "rule")
    list_filter = ("kind", RUN_FILTER)
    dashboard = "/alerts?view=silences"
    ordering = ("-id",)
