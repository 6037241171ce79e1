"""Published versions of a run's weights, for readers that are no trainer of the run."""

import hashlib
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from rolldeck import weights_directory
from rolldeck.errors import InvalidAnswerError, InvalidMessageError, NotFoundError
from rolldeck.http import Connection, download
from rolldeck.safetensors import Content

PER_PAGE: Final = 200
"""Maximum `limit` of the server."""


class PublishedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``GET /api/v1/runs/{run}/weights``."""

    epoch: int
    step: int
    sha256: str
    size_bytes: int
    has_file: bool
    """Whether the platform holds the file."""


def find_version(connection: Connection, run: str, step: int | None = None) -> PublishedVersion:
    """Return the version that was published last.

    Args:
        connection: Connection with a token that may read the run.
        run: Name of the run.
        step: Only versions of this step, in any epoch; None for all.

    Raises:
        NotFoundError: If there is no such run or version.
        RolldeckError: A subclass for another refusal, or if the platform is unreachable.
    """
    limit = 1 if step is None else PER_PAGE
    for row in connection.rows(f"{_root(run)}/weights", {"limit": limit}):
        try:
            version = msgspec.convert(row, PublishedVersion)
        except msgspec.ValidationError as error:
            raise InvalidAnswerError(status=200, code="bad_answer", detail=str(error)) from error
        if step is None or version.step == step:
            return version
    lacking = "published weights" if step is None else f"version {step}"
    raise NotFoundError(status=0, code="no_weights", detail=f"run {run!r} has no {lacking}")


def read_version(
    connection: Connection, run: str, version: PublishedVersion, *, folder: Path | None = None
) -> Content:
    """Return the safetensors file of a version, after a check of its SHA-256.

    Args:
        connection: Connection with a token that may read the run.
        run: Name of the run.
        version: Version of the run.
        folder: Shared weights folder of a run whose weights are not uploaded.

    Raises:
        NotFoundError: If neither the platform nor `folder` holds the file.
        InvalidMessageError: If the file does not match the checksum.
        RolldeckError: A subclass for another refusal, or if the platform is unreachable.
    """
    if version.has_file:
        path = f"{_root(run)}/weights/{version.epoch}/{version.step}"
        return download(connection, path, size_bytes=version.size_bytes, sha256=version.sha256)
    if folder is None:
        raise _absence(
            f"the platform holds no file of version {version.step} of run {run!r}: it keeps the "
            "newest files, and none of a run with a shared weights folder"
        )
    path_in_folder = weights_directory.file_path(folder, version)
    try:
        content = path_in_folder.read_bytes()
    except FileNotFoundError as error:
        raise _absence(f"{path_in_folder} does not exist") from error
    if hashlib.sha256(content).hexdigest() != version.sha256:
        raise InvalidMessageError(f"{path_in_folder} does not match its checksum")
    return content


def _root(run: str) -> str:
    return f"/api/v1/runs/{quote(run, safe='')}"


def _absence(text: str) -> NotFoundError:
    return NotFoundError(status=0, code="no_weights", detail=text)
