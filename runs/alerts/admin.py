"""Admin of alerts, deliveries, rules and snoozes; the dashboard changes them, audited."""

from runs.alerts.models import Alert, AlertDelivery, AlertRule, AlertSnooze
from web.admin.read_only import RUN_FILTER, register_read_only

register_read_only(
    Alert,
    columns="first_seen_at severity state kind run_link message times_seen cleared_at",
    filters=("state", "severity", "kind", RUN_FILTER),
    dashboard="/alerts",
    may_grow=True,
)
register_read_only(
    AlertDelivery,
    columns="created_at target change state attempts last_status last_error settled_at",
    filters=("state", "change"),
    search_fields=("target", "alert__message"),
    search_help="A webhook's host, a mail address, or a part of an alert's message",
    run_lookup="alert__run",
    dashboard="/alerts",
)
register_read_only(
    AlertRule,
    columns="name metric comparator threshold for_seconds severity action is_enabled run_link "
    "run_filter changed_by",
    filters=("is_enabled", "severity", "action", RUN_FILTER),
    search_fields=("name", "metric"),
    search_help="A part of a rule's name or metric",
    ordering=("name",),
    dashboard="/alerts?view=rules",
)
register_read_only(
    AlertSnooze,
    columns="kind alert rule run_link until reason created_by created_at",
    filters=("kind", RUN_FILTER),
    joins=("alert", "rule"),
    dashboard="/alerts?view=snoozed",
)
