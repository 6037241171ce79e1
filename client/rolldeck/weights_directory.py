"""Weights in a directory shared by trainers and fleets.

A version consists of two files: ``<epoch>-<step>-<checksum>.safetensors``, and its manifest under
the same name with ``.json``, which is the marker. Each is written under a temporary name, synced
and renamed; the marker comes last. So a version with a marker is complete, a name never changes its
content, and a version rejected by the platform damages no announced one.
"""

import os
import re
from pathlib import Path
from typing import Final, Protocol

import msgspec

from rolldeck.fleet_wire import WeightsManifest
from rolldeck.safetensors import Content

KEPT_VERSIONS: Final = 4
_NAME: Final = re.compile(r"^(\d+)-(-?\d+)-[0-9a-f]{12}\.(json|safetensors)$")


class NamedVersion(Protocol):
    """The fields of a version that name its file."""

    @property
    def epoch(self) -> int:
        """Training session of the version."""

    @property
    def step(self) -> int:
        """Step of the version in its epoch."""

    @property
    def sha256(self) -> str:
        """Checksum of the file in hex."""


def file_path(folder: Path, version: NamedVersion) -> Path:
    """Return the path of a version's tensors."""
    name = f"{version.epoch}-{version.step}-{version.sha256[:12]}"
    return folder / f"{name}.safetensors"


def write(folder: Path, manifest: WeightsManifest, content: Content) -> None:
    """Write a version to `folder`, and delete all but the newest few versions.

    Raises:
        OSError: If the folder cannot be written to; readers then do not see the version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = file_path(folder, manifest)
    _put(path, content)
    _put(path.with_suffix(".json"), msgspec.json.encode(manifest))
    found = [(match, path) for path in folder.iterdir() if (match := _NAME.match(path.name))]
    versions = sorted({(int(match[1]), int(match[2])) for match, _ in found})
    old = set(versions[:-KEPT_VERSIONS])
    # Markers first: a version without a marker is not readable.
    for match, path in sorted(found, key=lambda pair: pair[1].suffix):
        if (int(match[1]), int(match[2])) in old:
            path.unlink(missing_ok=True)


def read(folder: Path, manifest: WeightsManifest) -> bytes | None:
    """Return the unchecked file of a version; None without a marker equal to its manifest."""
    path = file_path(folder, manifest)
    try:
        marker = msgspec.json.decode(path.with_suffix(".json").read_bytes(), type=WeightsManifest)
        return path.read_bytes() if marker == manifest else None
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _put(path: Path, content: Content) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    # The rename is durable once the folder is synced.
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
