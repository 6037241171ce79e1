"""Drop expired payload segments, or list them."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from buffer.payloads.services.partitions import rotate_segment
from buffer.payloads.services.retention import apply_retention, retention_limits, segments_due


class Command(BaseCommand):
    """Seal the open segment if it is full and drop expired ones, as the periodic job does."""

    help = "Drop payload segments that exceed the retention settings."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="list the segments without dropping them"
        )

    def handle(self, *_args: Any, dry_run: bool, **_options: Any) -> None:
        now = timezone.now()
        if dry_run:
            numbers = segments_due(now=now, limits=retention_limits())
            self.stdout.write(f"due: {', '.join(map(str, numbers)) or 'none'}")
            return
        rotate_segment(now=now)
        report = apply_retention(now=now)
        self.stdout.write(
            f"dropped {len(report.dropped)} segments ({report.freed_bytes} bytes),"
            f" moved {report.moved_items} open items,"
            f" kept {len(report.kept_open)} that are mostly open"
        )
