"""Show a policy that learns through every part of the system."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from config.demo.show import Demo
from config.demo.view import LiveView, PlainView, View
from config.embedded.children import StartFailed


class Command(BaseCommand):
    """Start a deck, launch a CartPole run, train, and show the progress."""

    help = "Start a deck, launch a CartPole run, train it with PPO, and show the progress."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what the demo knows."""
        parser.add_argument(
            "--exit", action="store_true", help="end at the mark (exit code 0) or at the limit (1)"
        )
        parser.add_argument(
            "--limit-seconds", type=float, default=600.0, help="when the mark is missed"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run until the mark with ``--exit``, and until Ctrl-C without."""
        console = Console()
        view: View = LiveView(console) if console.is_terminal else PlainView(console)
        demo = Demo(view, exits=options["exit"], limit_seconds=options["limit_seconds"])
        try:
            reached = demo.run()
        except StartFailed as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            return
        if not reached:
            raise CommandError("the demo missed its mark")
