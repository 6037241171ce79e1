"""Restore a backup into an empty deployment.

Items are ordered by the transactions that wrote them (buffer.followers.services), and transaction
ids belong to one cluster. In another cluster, items written after a restore may get smaller ids
than restored items. So all restored items count as written by one early transaction, in the order
of their row ids. Each reader continues at the first item that it had not read; some later items
may be read twice, and none is skipped.

A restore that fails leaves neither rows nor files. One that is killed leaves no rows, so the same
command starts it again. Nothing is overwritten: a deployment that holds data, or files that are
not part of the backup, make the restore fail.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Final

from django.db import connection
from django.db.migrations.loader import MigrationLoader

from buffer.items.queries import ledger_problems
from buffer.payloads.services import objects
from config.backups import contents
from config.backups.contents import Progress
from config.backups.create import DUMP
from config.embedded.schema import migrate, unknown_migrations
from config.own_folders import bind_folders
from runs.events.services import record_event
from runs.lifecycle.models import Run

# Renumber the positions of followers for a cluster with other transaction ids.

_MOVED_ITEMS: Final = ("buffer_trajectorygroup", "buffer_fragmentchunk")
_LAST: Final = (1 << 63) - 1

_PLACES: Final = """
    CREATE INDEX restoring_{table} ON public.{table} (run_id, written_in, id);
    ANALYZE public.{table};"""
_CURSORS: Final = """
    UPDATE public.{table} c SET {number} = '0', {item} = COALESCE((
        SELECT min(u.id) - 1 FROM (
            SELECT g.id FROM public.buffer_trajectorygroup g WHERE g.run_id = c.run_id
            AND (g.written_in, g.id) > (c.{number}::text::xid8, c.{item})
            UNION ALL
            SELECT f.id FROM public.buffer_fragmentchunk f WHERE f.run_id = c.run_id
            AND (f.written_in, f.id) > (c.{number}::text::xid8, c.{item})
        ) u), {last})
    WHERE c.{number}::text <> '0';"""
_FORGET: Final = """
    DROP INDEX public.restoring_{table};
    UPDATE public.{table} SET written_in = '0';"""
_READERS: Final = (
    ("buffer_follower", "cursor_written_in", "cursor_id"),
    ("buffer_digestcursor", "written_in", "item_id"),
    ("rollouts_measurecursor", "group_written_in", '"group"'),
    ("rollouts_measurecursor", "digest_written_in", "digest"),
)
_IF_AHEAD: Final = """
    DO $$ BEGIN
        IF EXISTS (SELECT FROM public.buffer_trajectorygroup
                   WHERE written_in >= pg_current_xact_id())
        OR EXISTS (SELECT FROM public.buffer_fragmentchunk
                   WHERE written_in >= pg_current_xact_id())
        THEN {statements} END IF;
    END $$;"""


def statements() -> str:
    """Return the SQL that renumbers restored items, if this cluster's ids are behind theirs."""
    places = [_PLACES.format(table=table) for table in _MOVED_ITEMS]
    cursors = [
        _CURSORS.format(table=table, number=number, item=item, last=_LAST)
        for table, number, item in _READERS
    ]
    return _IF_AHEAD.format(
        statements="".join(
            [*places, *cursors, *(_FORGET.format(table=table) for table in _MOVED_ITEMS)]
        )
    )


# Restore a backup: first the files, then the rows that name them, in one transaction.

ACTOR: Final = "manage.py restore_backup"
_OTHERS: Final = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
_TABLES: Final = """
    SELECT count(*), count(*) FILTER (WHERE tablename = 'django_migrations')
    FROM pg_tables WHERE schemaname = 'public'"""
_HELD: Final = """
    SELECT (SELECT count(*) FROM (SELECT 1 FROM runs_run LIMIT 1000) r),
        (SELECT count(*) FROM (SELECT 1 FROM auth_user LIMIT 1000) u)"""
# Drops the schema of an empty deployment; the transaction brings it back if anything fails.
_EMPTY: Final = """
    DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC;"""
_ITEMS: Final = """
    SELECT kind, state, SUM(items)::bigint FROM buffer_tally GROUP BY kind, state"""


class RestoreRefused(Exception):
    """The restore would overwrite data, or the backup cannot be read by this version."""


class RestoreMismatch(Exception):
    """The restored data differs from the backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTotals:
    """The totals of a finished restore."""

    runs: int
    items: dict[str, int]
    """Accepted items by kind."""
    migrations: int
    """Number of migrations applied afterwards, for a backup of an earlier version."""


def check_backup(folder: Path, *, progress: Progress) -> contents.Header:
    """Read every byte of a backup and compare it with the manifest.

    Raises:
        BackupDamaged: If a file is missing or changed; the message names it.
    """
    header = contents.header(folder)
    size_bytes, has_dump = 0, False
    for number, entry in enumerate(contents.entries(folder), start=1):
        path = _path(folder, entry)
        try:
            digest = contents.sha256_of(contents.pieces_of(path))
        except OSError as error:
            raise contents.BackupDamaged(f"{path} cannot be read: {error}") from error
        if digest != entry.sha256:
            raise contents.BackupDamaged(f"{path} was changed: its checksum differs")
        size_bytes += entry.size_bytes
        has_dump = has_dump or entry.path == DUMP
        progress.count("checked", files=number, size_bytes=size_bytes)
    if not has_dump:
        raise contents.BackupDamaged(f"{folder} has no {DUMP}")
    return header


def restore_backup(folder: Path, *, now: datetime, progress: Progress) -> RestoreTotals:
    """Restore a backup into the empty deployment, and verify the result.

    Raises:
        BackupDamaged: If the backup is incomplete; nothing was changed.
        RestoreRefused: If existing data is in the way; nothing was changed.
        ProgramFailed: If PostgreSQL rejects the dump; no row was written.
        RestoreMismatch: If the restored data differs from the backup.
    """
    header = check_backup(folder, progress=progress)
    dump = folder / DUMP
    _refuse_target(header)
    for name in contents.all_object_names():
        if not (folder / contents.PAYLOADS / name).is_file():
            raise RestoreRefused(f"the payload storage holds {name}, which is not in the backup")
    for kind, tree in contents.trees().items():
        for path in contents.files_below(tree):
            if not (folder / kind / path.relative_to(tree)).is_file():
                raise RestoreRefused(f"{path} exists and is not in the backup")
    progress.report("The backup is complete, and the target is empty.")
    with _removed_on_failure() as written:
        _put_files(folder, progress, written)
        progress.report("Loading the database …")
        contents.run_script(
            [
                _EMPTY,
                contents.sections_of(dump, "pre-data", "data"),
                statements(),
                contents.sections_of(dump, "post-data"),
            ]
        )
    applied = migrate()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    restored = _verified(header, applied=applied)
    bind_folders(now=now)
    record_event(
        run_id=None,
        kind="server_restored",
        message=f"deployment restored as of {header.made_at:%Y-%m-%d %H:%M:%S} UTC",
        actor=ACTOR,
        details={"as_of": header.made_at.isoformat(), "runs": restored.runs},
        now=now,
    )
    return restored


def _path(folder: Path, entry: contents.Entry) -> Path:
    """Return the path of a file of a backup; rejects paths that leave the folder."""
    parts = entry.path.split("/")
    if not parts[0] or set(parts) & {"", ".", ".."} or "\0" in entry.path:
        raise contents.BackupDamaged(f"{entry.path!r} is not a valid path in a backup")
    return folder.joinpath(*parts)


def _refuse_target(header: contents.Header) -> None:
    """Check that this version and its server can read a backup, and that the database is empty.

    Raises:
        RestoreRefused: If not.
    """
    loader = MigrationLoader(None, ignore_no_migrations=True)
    if unknown := unknown_migrations(header.migrations, loader):
        raise RestoreRefused(
            "the backup was made by another version of Rolldeck "
            f"({header.rolldeck or 'version unknown'}): it lists {len(unknown)} migrations that "
            f"this version lacks, among them {unknown[-1]}"
        )
    with contents.new_session() as session:
        # An earlier major version may not know the dump's statements.
        (made_major, made_minor), (major, minor) = (
            divmod(number, 10_000) for number in (header.postgresql, session.info.server_version)
        )
        if made_major > major:
            raise RestoreRefused(
                f"the backup was made with PostgreSQL {made_major}.{made_minor}, and the target "
                f"server is PostgreSQL {major}.{minor}: PostgreSQL loads dumps into the same or a "
                f"later major version only. Restore into PostgreSQL {made_major} or later; "
                "nothing was written"
            )
        (others,) = session.execute(_OTHERS).fetchone() or (0,)
        if others:
            raise RestoreRefused(
                f"{others} other sessions use the database: stop the server before the restore"
            )
        tables, is_ours = session.execute(_TABLES).fetchone() or (0, 0)
        if not tables:
            return
        if not is_ours:
            raise RestoreRefused("the database holds tables of another application")
        held, people = session.execute(_HELD).fetchone() or (0, 0)
        if held or people:
            raise RestoreRefused(
                f"the deployment holds {held} runs and {people} users; restore into an empty"
                " one: set another ROLLDECK_VAR or DATABASE_URL"
            )


@contextmanager
def _removed_on_failure() -> Iterator[IO[str]]:
    """Yield a list for the paths of new files; if the block fails, these files are removed.

    The list is a file, so memory does not grow with it. Files left by an earlier, killed restore
    stay.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as written:
        try:
            yield written
        except BaseException:
            written.seek(0)
            trees = contents.trees()
            for line in written:
                kind, _, name = json.loads(line).partition("/")
                if kind == contents.PAYLOADS:
                    contents.delete_object(name)
                else:
                    contents.remove(trees[kind] / name, within=trees[kind])
            raise


def _put_files(folder: Path, progress: Progress, written: IO[str]) -> None:
    trees = contents.trees()
    size_bytes = 0
    for number, entry in enumerate(contents.entries(folder), start=1):
        kind, _, name = entry.path.partition("/")
        if kind == contents.PAYLOADS:
            if not _is_there(contents.object_pieces(name), entry):
                written.write(json.dumps(entry.path) + "\n")
                # An object holds one push, whose size is limited.
                objects.write(name, [*contents.pieces_of(_path(folder, entry))])
        elif kind in trees:
            target = trees[kind] / name
            if not _is_there(contents.pieces_of(target), entry):
                written.write(json.dumps(entry.path) + "\n")
                contents.write(target, contents.pieces_of(_path(folder, entry)))
        size_bytes += entry.size_bytes
        progress.count("copied", files=number, size_bytes=size_bytes)


def _is_there(pieces: Iterator[bytes], entry: contents.Entry) -> bool:
    """Return whether an earlier, interrupted restore has already written a file."""
    try:
        digest = contents.sha256_of(pieces)
    except FileNotFoundError:
        return False
    if digest != entry.sha256:
        raise RestoreRefused(f"{entry.path} already exists with other content")
    return True


def _verified(header: contents.Header, *, applied: int) -> RestoreTotals:
    """Compare the restored counts with the backup, and each run's ledger with its rows."""
    found: dict[str, dict[str, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_ITEMS)
        for kind, state, count in cursor.fetchall():
            found.setdefault(kind, {})[state] = count
    runs = list(Run.objects.values_list("pk", "name"))
    if len(runs) != header.runs or found != header.items:
        raise RestoreMismatch(
            f"the backup holds {header.runs} runs with {header.items}, but"
            f" {len(runs)} runs with {found} were restored"
        )
    for pk, name in runs:
        problems = ledger_problems(pk)
        if problems:
            raise RestoreMismatch(f"the ledger of {name} does not balance: {'; '.join(problems)}")
    return RestoreTotals(
        runs=len(runs),
        items={kind: states.get("accepted", 0) for kind, states in found.items()},
        migrations=applied,
    )
