"""The list of a backup's files, and how one knows that a backup is whole.

One JSON object a line: first what the backup is of, then each file with its size and SHA-256, and
in the end how many they were and the SHA-256 of all lines before. Without that line it was cut off.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Self

import msgspec

NAME: Final = "manifest.jsonl"
FORMAT: Final = 1


class BackupDamaged(Exception):
    """A folder is no backup, or not the one that was made."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of.

    Attributes:
        format: Of the folder.
        made_at: When the database was as it is in here.
        rolldeck: Version of the code that made it.
        migrations: ``app.name`` of each that the database had.
        runs: How many there were.
        items: By kind, then by fate; ``accepted`` is their sum.
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
    """One file: its path in the backup, with slashes."""

    path: str
    size_bytes: int
    sha256: str


class _End(msgspec.Struct, frozen=True):
    files: int
    size_bytes: int
    sha256: str


class Writer:
    """Writes a manifest while the files are copied."""

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
        """Say that these were all."""
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
    """Return what a backup is of.

    Raises:
        BackupDamaged: If the folder is none that this version reads.
    """
    try:
        with (folder / NAME).open("rb") as file:
            found = msgspec.json.decode(file.readline(), type=Header)
    except (OSError, msgspec.DecodeError) as error:
        raise BackupDamaged(f"{folder} is no backup: {error}") from error
    if found.format != FORMAT:
        raise BackupDamaged(f"{folder} has format {found.format}; this version reads {FORMAT}")
    return found


def entries(folder: Path) -> Iterator[Entry]:
    """Go through the files of a backup; memory does not grow with them.

    Raises:
        BackupDamaged: In the end, if the list is not the one that was written.
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
        raise BackupDamaged(f"{folder / NAME} is cut off or was changed")
