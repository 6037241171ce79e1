"""Copy files and objects in pieces, with their sizes and checksums."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.files.storage import storages

from buffer.payloads.services import objects
from config.own_folders import MARKER

PIECE_BYTES: Final = 1 << 20
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
            _link(path, target)
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except FileNotFoundError:
        return  # deleted since it was listed
    except OSError:
        shutil.copyfile(path, target)


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
