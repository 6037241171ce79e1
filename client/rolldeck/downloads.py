"""Download a large file piece by piece, going on where a broken connection stopped."""

import hashlib
import logging
import random
import time
from pathlib import Path
from typing import Final

import httpx

from rolldeck.errors import RolldeckError, Unreachable
from rolldeck.http import RETRIED_STATUSES, Backoff, Connection
from rolldeck.wire import InvalidMessage

logger = logging.getLogger("rolldeck")

MIN_SILENT_ATTEMPTS: Final = 4
"""Attempts in a row without a byte before a download is given up, whatever the time."""
PAUSES: Final = Backoff(first_seconds=0.2, most_seconds=2.0)


def download(connection: Connection, path: str, *, size_bytes: int, sha256: str) -> memoryview:
    """Return the file at `path`, read-only and checked: exactly the one that `sha256` names.

    A connection that breaks is opened again for the bytes that are missing (``Range``), on the
    condition that the file is still the same (``If-Range``); a server with another file sends
    that one whole, which the checksum then refuses. So the bytes of two files are never mixed.
    A server that is unavailable is asked again for as long as the connection retries its calls.

    Args:
        connection: To the server.
        path: Of the file.
        size_bytes: Its length.
        sha256: Its checksum in hex, which the server must use as entity tag to allow resuming.

    Raises:
        InvalidMessage: If the whole file came and is not the one that was asked for.
        RolldeckError: A subclass for what the server refused, or when it stays silent.
    """
    kept = bytearray(size_bytes)
    have, silent, heard_at = 0, 0, time.monotonic()
    while have < size_bytes:
        before = have
        try:
            have = _further(connection, path, kept, have, tag=f'"{sha256}"')
        except _BrokenOff as broken:
            have = broken.have
            if have > before:
                silent, heard_at = 0, time.monotonic()
            silent += 1
            is_over = time.monotonic() - heard_at >= connection.retry_for_seconds
            if silent > MIN_SILENT_ATTEMPTS and is_over:
                raise broken.cause from broken
            logger.warning("%s broke off at %d of %d bytes", path, have, size_bytes)
            time.sleep(PAUSES.wait_seconds(silent, random.random()))  # noqa: S311
    if hashlib.sha256(kept).hexdigest() != sha256:
        raise InvalidMessage(f"{path} is not what its manifest says: another checksum")
    return memoryview(kept).toreadonly()


def save(connection: Connection, path: str, target: Path) -> int:
    """Write what is at `path` into a file, however large it is; return its length in bytes.

    The file appears under its name when all of it is there.

    Raises:
        OSError: If it cannot be written.
        RolldeckError: A subclass for what the server refused, or when the connection breaks.
    """
    begun = target.with_name(f"{target.name}.part")
    try:
        with connection.opened(path, {}) as answer, begun.open("wb") as file:
            size_bytes = sum(file.write(part) for part in answer.iter_bytes())
        begun.replace(target)
    finally:
        begun.unlink(missing_ok=True)
    return size_bytes


class _BrokenOff(Exception):
    """The connection ended early; `have` bytes of the file are there."""

    def __init__(self, have: int, cause: RolldeckError) -> None:
        super().__init__(str(cause))
        self.have = have
        self.cause = cause


def _further(connection: Connection, path: str, kept: bytearray, have: int, *, tag: str) -> int:
    """Write what the server sends into `kept`; return its length, the whole file's."""
    headers = {"Accept": "application/octet-stream", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    try:
        with connection.opened(path, headers) as answer:
            have = have if _goes_on(answer, have) else 0
            for chunk in answer.iter_raw():
                if have + len(chunk) > len(kept):
                    raise InvalidMessage(f"{path} is longer than the {len(kept)} bytes announced")
                kept[have : have + len(chunk)] = chunk
                have += len(chunk)
    except RolldeckError as failure:
        if isinstance(failure, Unreachable) or failure.status in RETRIED_STATUSES:
            raise _BrokenOff(have, failure) from failure
        raise
    if have < len(kept):
        raise InvalidMessage(f"{path} has {have} bytes, not the {len(kept)} announced")
    return have


def _goes_on(answer: httpx.Response, have: int) -> bool:
    """Return whether the answer begins at byte `have`, as was asked."""
    span = answer.headers.get("Content-Range", "")
    return answer.status_code == 206 and span.startswith(f"bytes {have}-")
