"""The recorded server is small, complete, and can be restored by this version."""

from pathlib import Path

from django.db.migrations.loader import MigrationLoader

from config.backups.contents import Progress
from config.backups.restore import check_backup
from config.embedded.schema import unknown_migrations
from tests.recorded_runs import names
from tests.recorded_runs.recording import FILE, recorded_at, unpack

MAX_BYTES = 6_000_000
"""A new recording adds as much to the repository."""


def test_the_recording_is_a_complete_backup_of_the_named_runs(tmp_path: Path) -> None:
    header = check_backup(unpack(tmp_path), progress=Progress())

    assert FILE.stat().st_size < MAX_BYTES
    assert header.made_at == recorded_at()
    assert header.runs == len(names.ALL)
    loader = MigrationLoader(None, ignore_no_migrations=True)
    assert unknown_migrations(header.migrations, loader) == []
