"""Command that prepares an external database before servers start on it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.embedded.children import StartFailed
from config.embedded.schema import adopt_bootstrap_token, migrate


class Command(BaseCommand):
    """Apply migrations and create the bootstrap token; `up` does both automatically."""

    help = "Apply the migrations and create the bootstrap token."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Do both; repeated calls change nothing."""
        try:
            applied = migrate()
            adopt_bootstrap_token()
        except StartFailed as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{applied} migrations applied")
