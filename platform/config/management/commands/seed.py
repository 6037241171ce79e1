"""Command that fills a deployment with sample runs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from config.seed import sample_runs
from config.seed.scale import LARGE, SMALL


class Command(BaseCommand):
    """Write runs of every kind and state, and simulate the fleets of the active ones."""

    help = "Fill a deployment with sample runs, then simulate the fleets of two until Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options."""
        parser.add_argument("--small", action="store_true", help="a quarter of the data, for tests")
        parser.add_argument(
            "--exit",
            action="store_true",
            help="exit when all is written and kill the live run",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Write the missing runs, then simulate their fleets."""
        there = sample_runs.present()
        if there:
            self.stdout.write(f"already seeded: {', '.join(there)}")
            return
        scale = SMALL if options["small"] else LARGE
        seeded = sample_runs.write(scale=scale, clock=timezone.now, note=self._note)
        self.stdout.write(f"seeded {len(seeded.runs)} runs")
        self.stdout.flush()
        try:
            if not options["exit"]:
                names = " and ".join(fleet.run.name for fleet in seeded.fleets)
                self.stdout.write(f"simulating the fleets of {names}; Ctrl-C to stop")
                self.stdout.flush()
                sample_runs.keep_alive(seeded.fleets, clock=timezone.now)
        except KeyboardInterrupt:
            self.stdout.write("ended")
        finally:
            sample_runs.end(seeded.fleets, now=timezone.now())

    def _note(self, name: str) -> None:
        self.stdout.write(f"  {name}")
        self.stdout.flush()
