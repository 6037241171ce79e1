"""Fill a deck with runs to look at."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from config.seed import deck
from config.seed.scale import LARGE, SMALL


class Command(BaseCommand):
    """Write runs of every kind and state, and play the fleet of the one that is under way."""

    help = "Fill a deck with seeded runs, then play the live one's fleet until Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add how much, and whether to stay."""
        parser.add_argument("--small", action="store_true", help="a tenth of it, for tests")
        parser.add_argument(
            "--exit",
            action="store_true",
            help="end when all is written; the live run is killed, as nobody plays its fleet",
        )

    def handle(self, *_args: Any, **asked: Any) -> None:
        """Write what is not there, and stay."""
        there = deck.present()
        if there:
            self.stdout.write(f"already seeded: {', '.join(there)}")
            return
        scale = SMALL if asked["small"] else LARGE
        seeded = deck.write(scale=scale, clock=timezone.now, note=self._note)
        self.stdout.write(f"seeded {len(seeded.runs)} runs")
        self.stdout.flush()
        try:
            if not asked["exit"]:
                self.stdout.write(f"playing the fleet of {seeded.live.run.name}; Ctrl-C ends it")
                self.stdout.flush()
                deck.keep_alive(seeded.live, clock=timezone.now)
        except KeyboardInterrupt:
            self.stdout.write("ended")
        finally:
            deck.end_live(seeded.live, now=timezone.now())

    def _note(self, name: str) -> None:
        self.stdout.write(f"  {name}")
        self.stdout.flush()
