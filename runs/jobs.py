"""Background jobs: evaluate alerts, send webhooks, delete old records."""

from celery import shared_task
from django.utils import timezone

from runs.access.services import login_attempts
from runs.alerts.jobs import send_webhooks
from runs.alerts.services import alert_retention, conditions
from runs.deployment.services import heartbeats, samples

__all__ = [
    "forget_alerts",
    "forget_login_attempts",
    "forget_silent_parts",
    "send_webhooks",
    "take_deck_sample",
    "watch_conditions",
]


@shared_task(name="runs.jobs.forget_silent_parts")
def forget_silent_parts() -> int:
    """Delete processes without a heartbeat for an hour; return their number."""
    return heartbeats.forget_silent_parts(now=timezone.now())


@shared_task(name="runs.jobs.forget_login_attempts")
def forget_login_attempts() -> int:
    """Delete expired counters of password attempts; return their number."""
    return login_attempts.forget_attempts(now=timezone.now())


@shared_task(name="runs.jobs.take_deck_sample")
def take_deck_sample() -> None:
    """Sample the size of the deployment, for the disk forecast."""
    samples.take_deck_sample(now=timezone.now())


@shared_task(name="runs.jobs.watch_conditions")
def watch_conditions() -> int:
    """Evaluate alert conditions; return the number of alerts raised or cleared."""
    return conditions.watch(now=timezone.now())


@shared_task(name="runs.jobs.forget_alerts")
def forget_alerts() -> int:
    """Delete alerts cleared before the retention period; return their number."""
    return alert_retention.forget_alerts(now=timezone.now())
