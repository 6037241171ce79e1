"""Read an archive back into a run."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from buffer.archive.queries.parquet import ArchiveUnavailable, ArchiveUnreadable
from buffer.archive.rules import InvalidWindow, window
from buffer.archive.services.restore import RestoreReport, WrongRunForArchive, restore_archive
from buffer.ingest.services.groups import RunNotAccepting
from runs.services.lifecycle import InvalidRunName


class Command(BaseCommand):
    """Queue what the file holds; what the run has of it already is not stored again."""

    help = "Queue the items of an archive in a run, which is created if there is none."

    def add_arguments(self, parser: CommandParser) -> None:
        """Name the file, the run and the window."""
        parser.add_argument("file", type=Path)
        parser.add_argument("--run", required=True, help="a run, or the name of a new one")
        parser.add_argument("--steps", default="", help="served steps, first:last, both inside")
        parser.add_argument("--state", default="", help="served, dropped or served,dropped")
        parser.add_argument("--env", type=int, action="append", help="an env_id; may come again")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Check the file whole, then store it."""
        try:
            report = restore_archive(
                path=options["file"],
                run_name=options["run"],
                window=window(
                    states=[word for word in options["state"].split(",") if word],
                    steps=options["steps"],
                    env_ids=options["env"],
                ),
                actor="manage.py restore",
                now=timezone.now(),
                on_progress=self._show,
            )
        except (
            ArchiveUnavailable,
            ArchiveUnreadable,
            InvalidRunName,
            InvalidWindow,
            RunNotAccepting,
            WrongRunForArchive,
        ) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{report.stored} items stored in {options['run']},"
            f" {report.known} were there already, {report.left_out} left out"
        )

    def _show(self, report: RestoreReport) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{report.stored + report.known} items", ending="")
