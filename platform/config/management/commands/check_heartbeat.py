"""Command that checks a process of this machine by its heartbeat, for health checks."""

import socket
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from config import heartbeats
from runs.deployment.models import ProcessHeartbeat

KINDS: Final = ("web", "worker", "scheduler")
LATE_AFTER: Final = timedelta(seconds=4 * heartbeats.EVERY_SECONDS)


class Command(BaseCommand):
    """Exit with 1 unless a process of this kind and machine has sent a heartbeat recently."""

    help = "Check that a process of this machine sends heartbeats."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=KINDS)

    def handle(self, *_args: Any, kind: str, **_options: Any) -> None:
        host = socket.gethostname()
        newest = (
            ProcessHeartbeat.objects.filter(kind=kind, host=host).order_by("-confirmed_at").first()
        )
        if newest is None:
            raise CommandError(f"no {kind} of {host} has sent a heartbeat")
        age = timezone.now() - newest.confirmed_at
        if age > LATE_AFTER:
            raise CommandError(
                f"the last heartbeat of {newest.name} is {age.total_seconds():.0f} s old"
            )
