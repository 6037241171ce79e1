"""Export a run's served and dropped items to a Parquet file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from buffer.archive.queries import ArchiveUnavailable
from buffer.archive.rules import InvalidWindow, window
from buffer.archive.services.export import ExportReport, export_run
from runs.lifecycle.queries import RunNotFound, run_named


class Command(BaseCommand):
    """Export a run in bounded memory."""

    help = "Export the served and dropped items of a run to a Parquet file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run")
        parser.add_argument("--out", type=Path, required=True, help="output file")
        parser.add_argument("--steps", default="", help="served steps, first:last, inclusive")
        parser.add_argument("--state", default="", help="served, dropped or served,dropped")
        parser.add_argument("--env", type=int, action="append", help="an env_id; repeatable")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            chosen = window(
                states=[word for word in options["state"].split(",") if word],
                steps=options["steps"],
                env_ids=options["env"],
            )
            report = export_run(
                run=run_named(options["run"]),
                window=chosen,
                path=options["out"],
                now=timezone.now(),
                on_progress=self._show,
            )
        except (RunNotFound, InvalidWindow, ArchiveUnavailable, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"Wrote {report.items} items ({report.payload_bytes} payload bytes) to {options['out']}"
        )
        left_out = {
            "dropped on arrival, never stored": report.without_bytes,
            "with bytes removed by retention": report.expired,
            "with missing bytes": report.lost,
            "with corrupt bytes": report.corrupt,
        }
        for what, count in left_out.items():
            if count:
                self.stdout.write(f"left out: {count} items {what}")

    def _show(self, report: ExportReport) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{report.items} items", ending="")
