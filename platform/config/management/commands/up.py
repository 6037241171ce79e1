"""Command that runs the whole deployment in the foreground."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.embedded.children import StartFailed
from config.embedded.supervisor import Supervisor


class Command(BaseCommand):
    """Start PostgreSQL, Valkey, Ray, the web server and the jobs; stop them on Ctrl-C."""

    help = "Run all servers in the foreground: database, broker, Ray, web server and jobs."
    # The supervisor runs its own checks once the servers are up.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the selection of parts."""
        parser.add_argument(
            "--only",
            choices=["buffer"],
            help="start no Ray: environments and trainers run elsewhere, and need no torch here",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run until SIGTERM or Ctrl-C."""
        try:
            Supervisor(print_line=self._print, has_fleets=options["only"] is None).run()
        except StartFailed as error:
            raise CommandError(str(error)) from error

    def _print(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
