"""Celery job that sends alert deliveries."""

import logging
from typing import Any, Final

from celery import current_app, shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from runs.alerts.services import webhooks

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


logger = logging.getLogger(__name__)


@shared_task(name="runs.alerts.jobs.send_webhooks")
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
