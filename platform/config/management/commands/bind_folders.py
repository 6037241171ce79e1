"""Command that binds the configured folders to the configured database."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from config.backups.contents import local_database
from config.embedded.children import StartFailed
from config.own_folders import bind_folders


class Command(BaseCommand):
    """Mark the folders of payloads, weights, recordings and archives as those of the database."""

    help = "Use the configured folders with the configured database from now on."
    # The database may not run yet.
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Write a new deployment id into both; other servers must then share these folders."""
        try:
            with local_database(alone=False):
                made = bind_folders(now=timezone.now())
        except (StartFailed, OSError) as error:
            raise CommandError(str(error)) from error
        places = ", ".join(made.places.values())
        self.stdout.write(f"deployment {made.identity}: {places}")
