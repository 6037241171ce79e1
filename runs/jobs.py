"""Do in the background what nobody waits for: look at what is wrong, tell webhooks, forget."""

import logging
from typing import Any, Final

from celery import current_app, shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from runs import services
from runs.services import alert_retention, conditions, login_attempts, webhooks

logger = logging.getLogger(__name__)

# Celery's own connections try for six seconds before they give up, inside somebody's request.
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
    """Forget the recorded calls of clients that have been silent for long; return how many."""
    return services.forget_calls(now=timezone.now())


@shared_task(name="runs.jobs.forget_silent_parts")
def forget_silent_parts() -> int:
    """Forget processes of the deck that have said nothing for an hour; return how many."""
    return services.forget_silent_parts(now=timezone.now())


@shared_task(name="runs.jobs.forget_login_attempts")
def forget_login_attempts() -> int:
    """Delete counters of password attempts whose window is long over; return how many."""
    return login_attempts.forget_attempts(now=timezone.now())


@shared_task(name="runs.jobs.take_deck_sample")
def take_deck_sample() -> None:
    """Write down how large the deck is: what is foretold of its disk comes from that."""
    services.take_deck_sample(now=timezone.now())


@shared_task(name="runs.jobs.watch_conditions")
def watch_conditions() -> int:
    """Raise alerts for what is wrong now and resolve those of what is not; return how many."""
    return conditions.watch(now=timezone.now())


@shared_task(name="runs.jobs.forget_alerts")
def forget_alerts() -> int:
    """Forget alerts that have been over for long; return how many."""
    return alert_retention.forget_alerts(now=timezone.now())


@shared_task(name="runs.jobs.send_webhooks")
def send_webhooks() -> int:
    """Tell webhooks and mailboxes what became of alerts; return how many have heard it."""
    return webhooks.send_due(clock=timezone.now)


def send_webhooks_soon() -> bool:
    """Ask for a pass over the deliveries now; return False if the broker is away.

    What is asked in vain costs one period of the schedule.
    """
    try:
        with current_app.connection_for_write(transport_options=IN_A_HURRY) as broker:
            send_webhooks.apply_async(retry=False, expires=SOON_EXPIRES_SECONDS, connection=broker)
    except (OperationalError, OSError) as error:
        logger.warning("webhooks are not told before the next pass: %s", error)
        return False
    return True
