"""The manifest of a backup: its files, and a check that the list is complete.

One JSON object per line: first the header, then each file with its size and SHA-256, last the
number of files and the SHA-256 of all lines before. A manifest without the last line is cut off.
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
