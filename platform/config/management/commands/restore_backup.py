"""Command that restores a backup into an empty deployment."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from buffer.payloads.services.objects import PayloadStorageDown
from config.backups import contents
from config.backups.contents import ProgramFailed, Progress, local_database
from config.backups.restore import RestoreMismatch, RestoreRefused, restore_backup
from config.embedded.children import StartFailed


class Command(BaseCommand):
    """Restore a backup; refuses to overwrite existing data."""

    help = "Restore a backup of `manage.py backup` into a stopped, empty deployment."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the folder."""
        parser.add_argument("folder", type=Path, help="folder written by `manage.py backup`")

    def handle(self, *_args: Any, folder: Path, **_options: Any) -> None:
        """Restore the backup and print its totals."""
        try:
            with local_database(alone=True), Progress() as progress:
                restored = restore_backup(folder.absolute(), now=timezone.now(), progress=progress)
        except (
            PayloadStorageDown,
            ProgramFailed,
            RestoreRefused,
            RestoreMismatch,
            StartFailed,
            contents.BackupDamaged,
            OSError,
        ) as error:
            raise CommandError(str(error)) from error
        items = ", ".join(f"{count} {kind}" for kind, count in sorted(restored.items.items()))
        self.stdout.write(
            f"{restored.runs} runs with {items or 'no items'}; every ledger balances"
            + (f"; {restored.migrations} migrations applied" if restored.migrations else "")
        )
