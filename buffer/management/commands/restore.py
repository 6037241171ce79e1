"""Restore an archive into a run."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from buffer.archive.queries import ArchiveUnavailable, ArchiveUnreadable
from buffer.archive.rules import InvalidWindow, window
from buffer.archive.services.restore import RestoreReport, WrongRunForArchive, restore_archive
from buffer.ingest.services.pushes import RunNotAccepting
from runs.lifecycle.services.lifecycle import InvalidRunName


class Command(BaseCommand):
    """Queue the items of an archive; items that the run already has are skipped."""

    help = "Queue the items of an archive in a run; the run is created if it does not exist."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--run", required=True, help="name of an existing or new run")
        parser.add_argument("--steps", default="", help="served steps, first:last, inclusive")
        parser.add_argument("--state", default="", help="served, dropped or served,dropped")
        parser.add_argument("--env", type=int, action="append", help="an env_id; repeatable")

    def handle(self, *_args: Any, **options: Any) -> None:
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
            f" {report.known} already present, {report.left_out} left out"
        )

    def _show(self, report: RestoreReport) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{report.stored + report.known} items", ending="")
