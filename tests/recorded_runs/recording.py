"""The recorded server: real runs, frozen at the time of their backup."""

import lzma
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from config.backups import contents

FILE: Final = Path(__file__).with_name("runs.tar.xz")
_ROOT: Final = "backup"


def unpack(folder: Path) -> Path:
    """Unpack the backup into a folder, and return the backup's folder."""
    with lzma.open(FILE) as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
        archive.extractall(folder, filter="data")
    return folder / _ROOT


def recorded_at() -> datetime:
    """Return the time of the backup."""
    with lzma.open(FILE) as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
        for entry in archive:
            if entry.name == f"{_ROOT}/{contents.NAME}":
                content = archive.extractfile(entry)
                assert content is not None
                return msgspec.json.decode(content.readline(), type=contents.Header).made_at
    raise AssertionError(f"{FILE} has no {contents.NAME}")
