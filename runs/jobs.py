"""Background jobs: evaluate alerts, send webhooks, delete old records."""

from celery import shared_task
from django.utils import timezone

from runs.access.services.passwords import delete_old_attempts
from runs.alerts.jobs import send_webhooks
from runs.alerts.services import alerts
from runs.deployment import services as deployment
from runs.lifecycle.services import deletion

__all__ = [
    "delete_old_alerts",
    "delete_old_login_attempts",
    "delete_silent_processes",
    "remove_deleted_runs",
    "send_webhooks",
    "watch_conditions",
]


@shared_task(name="runs.jobs.remove_deleted_runs")
def remove_deleted_runs() -> int:
    """Remove rows and bytes of deleted runs; return the number of rows."""
    return deletion.remove_deleted_runs(clock=timezone.now)


@shared_task(name="runs.jobs.delete_silent_processes")
def delete_silent_processes() -> int:
    """Delete processes without a heartbeat for an hour; return their number."""
    return deployment.delete_silent_processes(now=timezone.now())


@shared_task(name="runs.jobs.delete_old_login_attempts")
def delete_old_login_attempts() -> int:
    """Delete expired counters of password attempts; return their number."""
    return delete_old_attempts(now=timezone.now())


@shared_task(name="runs.jobs.watch_conditions")
def watch_conditions() -> int:
    """Evaluate alert conditions; return the number of alerts raised or cleared."""
    return alerts.watch(now=timezone.now())


@shared_task(name="runs.jobs.delete_old_alerts")
def delete_old_alerts() -> int:
    """Delete alerts cleared before the retention period; return their number."""
    return alerts.delete_old_alerts(now=timezone.now())
