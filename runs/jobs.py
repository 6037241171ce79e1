"""Forget in the background what nobody asks for any more."""

from celery import shared_task
from django.utils import timezone

from runs import services


@shared_task(name="runs.jobs.forget_calls")
def forget_calls() -> int:
    """Forget the recorded calls of clients that have been silent for long; return how many."""
    return services.forget_calls(now=timezone.now())


@shared_task(name="runs.jobs.forget_silent_parts")
def forget_silent_parts() -> int:
    """Forget processes of the deck that have said nothing for an hour; return how many."""
    return services.forget_silent_parts(now=timezone.now())
