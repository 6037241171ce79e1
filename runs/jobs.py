"""Background jobs: evaluate alerts, send webhooks, delete old records."""

import logging
from typing import Any, Final

from celery import current_app, shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from runs import services
from runs.services import alert_retention, conditions, login_attempts, webhooks

logger = logging.getLogger(__name__)

# Celery's own connections retry for six seconds before they fail, during a request.
IN_A_HURRY: Final[dict[str, Any]] = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
    "socket_connect_timeout": 0.4,
    "socket_timeout": 0.4,
}
SOON_EXPIRES_SECONDS: Final = 30.0


@shared_task(name="runs.jobs.forget_calls")
def forget_calls() -> int:
    """Delete the recorded calls of inactive clients; return their number."""
    return services.forget_calls(now=timezone.now())


@shared_task(name="runs.jobs.forget_silent_parts")
def forget_silent_parts() -> int:
    """Delete processes without a heartbeat for an hour; return their number."""
    return services.forget_silent_parts(now=timezone.now())


@shared_task(name="runs.jobs.forget_login_attempts")
def forget_login_attempts() -> int:
    """Delete expired counters of password attempts; return their number."""
    return login_attempts.forget_attempts(now=timezone.now())


@shared_task(name="runs.jobs.take_deck_sample")
def take_deck_sample() -> None:
    """Sample the size of the deployment, for the disk forecast."""
    services.take_deck_sample(now=timezone.now())


@shared_task(name="runs.jobs.watch_conditions")
def watch_conditions() -> int:
    """Evaluate alert conditions; return the number of alerts raised or cleared."""
    return conditions.watch(now=timezone.now())


@shared_task(name="runs.jobs.forget_alerts")
def forget_alerts() -> int:
    """Delete alerts cleared before the retention period; return their number."""
    return alert_retention.forget_alerts(now=timezone.now())


@shared_task(name="runs.jobs.send_webhooks")
def send_webhooks() -> int:
    """Send due alert deliveries; return the number delivered."""
    return webhooks.send_due(clock=timezone.now)


def send_webhooks_soon() -> bool:
    """Request a delivery pass now; return False without a broker.

    A failed request costs one period of the schedule.
    """
    try:
        with current_app.connection_for_write(transport_options=IN_A_HURRY) as broker:
            send_webhooks.apply_async(retry=False, expires=SOON_EXPIRES_SECONDS, connection=broker)
    except (OperationalError, OSError) as error:
        logger.warning("webhooks wait for the next pass: %s", error)
        return False
    return True
