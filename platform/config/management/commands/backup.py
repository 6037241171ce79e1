"""Command that backs up the whole deployment into a folder."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from buffer.payloads.services.objects import PayloadStorageDown
from config.backups import contents
from config.backups.contents import ProgramFailed, Progress, local_database, size
from config.backups.create import BackupRefused, make_backup
from config.backups.restore import check_backup
from config.embedded.children import StartFailed


class Command(BaseCommand):
    """Back up the database, payloads, weights, recordings and archives of a running server."""

    help = "Write a backup of the whole deployment into a new folder, or check one."
    # The database may not run yet.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the folder and the option `--check`."""
        parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
        parser.add_argument(
            "--check", action="store_true", help="check every byte of an existing backup"
        )

    def handle(self, *_args: Any, folder: Path, check: bool, **_options: Any) -> None:
        """Write a backup, or check one."""
        now = timezone.now()
        try:
            if check:
                with Progress() as progress:
                    header = check_backup(folder, progress=progress)
                self.stdout.write(f"{folder} complete: {header.runs} runs as of {header.made_at}")
                return
            with local_database(alone=False), Progress() as progress:
                made = make_backup(folder=folder.absolute(), now=now, progress=progress)
        except (
            BackupRefused,
            ProgramFailed,
            PayloadStorageDown,
            StartFailed,
            contents.BackupDamaged,
            OSError,
        ) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{folder}: {made.runs} runs, {made.files} files, {size(made.size_bytes)}"
        )
