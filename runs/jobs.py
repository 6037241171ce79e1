"""Do in the background what nobody waits for: look at what is wrong, tell webhooks, forget."""

from celery import shared_task
from django.utils import timezone

from runs import services
from runs.services import conditions, webhooks


@shared_task(name="runs.jobs.forget_calls")
def forget_calls() -> int:
    """Forget the recorded calls of clients that have been silent for long; return how many."""
    return services.forget_calls(now=timezone.now())


@shared_task(name="runs.jobs.forget_silent_parts")
def forget_silent_parts() -> int:
    """Forget processes of the deck that have said nothing for an hour; return how many."""
    return services.forget_silent_parts(now=timezone.now())


@shared_task(name="runs.jobs.watch_conditions")
def watch_conditions() -> int:
    """Raise alerts for what is wrong now and resolve those of what is not; return how many."""
    return conditions.watch(now=timezone.now())


@shared_task(name="runs.jobs.send_webhooks")
def send_webhooks() -> int:
    """Tell webhooks what became of alerts; return how many have heard it."""
    return webhooks.send_due(clock=timezone.now)
