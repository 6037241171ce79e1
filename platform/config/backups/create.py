"""Write a backup: first the database, then the files and objects that its rows name.

Files are written before the row that names them and removed after it, so everything the database
names at a snapshot exists at that time. In the opposite order a backup would miss data written
in between. Until all files are copied, retention is paused and hard links keep deleted files.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from django.db import connection, transaction

from config.backups import contents
from config.backups.contents import Progress
from config.own_folders import folder_problem
from config.versions import own_version
from runs.events.services import record_event

DUMP: Final = "database.dump"
ACTOR: Final = "manage.py backup"

# Writers of these tables delete files after commit; the lock keeps them out while links are made.
_LOCK_TABLES: Final = """
    LOCK TABLE runs_policyversion, rollouts_recording, buffer_archivejob IN SHARE MODE"""
_PAUSE_RETENTION: Final = "SELECT pg_advisory_lock(hashtext('rolldeck.retention'))"
_RESUME_RETENTION: Final = "SELECT pg_advisory_unlock(hashtext('rolldeck.retention'))"
_MIGRATIONS: Final = "SELECT app || '.' || name FROM django_migrations ORDER BY 1"
_RUNS: Final = "SELECT count(*) FROM runs_run"
_ITEMS: Final = """
    SELECT kind, state, SUM(items)::bigint FROM buffer_tally GROUP BY kind, state ORDER BY 1, 2"""
_FOLDERS: Final = """
    SELECT number::text FROM buffer_segment WHERE dropped_at IS NULL
    UNION SELECT split_part(name, '/', 1) FROM buffer_tensorobject WHERE name <> ''
    ORDER BY 1"""
"""Folders of objects: the segments of payloads, and the runs with tensors."""


class BackupRefused(Exception):
    """The target folder exists, the database holds no deployment, or the files are not its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupTotals:
    """The totals of a finished backup."""

    runs: int
    files: int
    size_bytes: int


def make_backup(*, folder: Path, now: datetime, progress: Progress) -> BackupTotals:
    """Write a backup into a new folder, which gets its final name once it is complete.

    Raises:
        BackupRefused: If the folder exists, the database holds no deployment, or the configured
            folders are not those of the database.
        ProgramFailed: If a PostgreSQL program fails.
        OSError: If the folder cannot be written.
    """
    if folder.exists():
        raise BackupRefused(f"{folder} already exists; name a new folder")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, mode=0o700)
    try:
        made = _filled(part, now=now, progress=progress)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    part.rename(folder)
    record_event(
        run_id=None,
        kind="server_backed_up",
        message=f"backup made: {made.runs} runs, {made.files} files",
        actor=ACTOR,
        details={"bytes": made.size_bytes, "files": made.files, "as_of": now.isoformat()},
        now=now,
    )
    return made


def _filled(part: Path, *, now: datetime, progress: Progress) -> BackupTotals:
    with ExitStack() as undo:
        undo.enter_context(_retention_paused())
        rooms, session, snapshot = _snapshot_session(undo)
        items: dict[str, dict[str, int]] = {}
        for kind, state, count in session.execute(_ITEMS):
            items.setdefault(kind, {})[state] = count
        header = contents.Header(
            format=contents.FORMAT,
            made_at=now,
            rolldeck=own_version(),
            migrations=[name for (name,) in session.execute(_MIGRATIONS)],
            runs=session.execute(_RUNS).fetchone()[0],
            items=items,
            postgresql=session.info.server_version,
        )
        folders = [name for (name,) in session.execute(_FOLDERS)]
        with contents.Writer(part, header) as listed:

            def copy(where: str, pieces: Iterator[bytes], *, what: str) -> None:
                listed.add(contents.Entry(where, *contents.write(part / where, pieces)))
                progress.count(what, files=listed.files, size_bytes=listed.size_bytes)

            progress.report("Copying the database …")
            copy(DUMP, contents.dump(snapshot=snapshot), what="database")
            session.close()  # ends the snapshot, which holds back vacuum
            for tree, room in rooms.items():
                for path in contents.files_below(room):
                    where = f"{tree}/{path.relative_to(room).as_posix()}"
                    copy(where, contents.pieces_of(path), what=tree)
            for name in chain.from_iterable(map(contents.object_names, folders)):
                where = f"{contents.PAYLOADS}/{name}"
                try:
                    copy(where, contents.object_pieces(name), what=contents.PAYLOADS)
                except FileNotFoundError:
                    # The push was a retry or failed: no row names the object, and it was deleted.
                    (part / where).unlink(missing_ok=True)
            os.sync()
            listed.close()
    return BackupTotals(runs=header.runs, files=listed.files, size_bytes=listed.size_bytes)


@contextmanager
def _retention_paused() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(_PAUSE_RETENTION)
        try:
            yield
        finally:
            # The server releases the lock of a lost connection.
            with suppress(Exception):
                cursor.execute(_RESUME_RETENTION)


def _snapshot_session(undo: ExitStack) -> tuple[dict[str, Path], Any, str]:
    """Open a session on a snapshot, and link the files that exist at that snapshot."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '60s'")
        cursor.execute("SELECT to_regclass('django_migrations')")
        if cursor.fetchone()[0] is None:
            raise BackupRefused("the database has no Rolldeck tables")
        if problem := folder_problem():
            raise BackupRefused(problem)
        cursor.execute(_LOCK_TABLES)
        session = undo.enter_context(contents.new_session())
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = session.execute("SELECT pg_export_snapshot()").fetchone()
        assert found is not None  # noqa: S101 a query without FROM has a row
        rooms = {
            name: undo.enter_context(contents.staged(folder))
            for name, folder in contents.trees().items()
        }
    return rooms, session, str(found[0])
