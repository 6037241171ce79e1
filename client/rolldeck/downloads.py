"""Download a large file in pieces, and resume after a broken connection."""

import hashlib
import logging
import random
import time
from pathlib import Path
from typing import Final

from rolldeck.errors import RolldeckError, Unreachable
from rolldeck.http import RETRIED_STATUSES, Backoff, Connection, Response
from rolldeck.wire import InvalidMessage

logger = logging.getLogger("rolldeck")

MIN_SILENT_ATTEMPTS: Final = 4
"""Minimum number of consecutive attempts without a byte before a download fails."""
PIECE_BYTES: Final = 1 << 20
"""A broken download continues after the last byte of its pieces."""
PAUSES: Final = Backoff(first_seconds=0.2, most_seconds=2.0)


def download(connection: Connection, path: str, *, size_bytes: int, sha256: str) -> memoryview:
    """Return the content of `path`, read-only, after a check of its SHA-256.

    After a broken connection the missing bytes are requested (``Range``), on the condition that
    the file is unchanged (``If-Range``). A server with another file sends that file whole, and the
    checksum rejects it, so bytes of two files are never mixed. An unavailable server is retried
    for as long as the connection retries its calls.

    Args:
        connection: Connection to the server.
        path: Path of the file.
        size_bytes: Its length.
        sha256: Its checksum in hex; the server must use it as entity tag to permit resuming.

    Raises:
        InvalidMessage: If the received file does not match the checksum.
        RolldeckError: A subclass for a refusal by the server, or if it stays unreachable.
    """
    kept = bytearray(size_bytes)
    have, silent, heard_at = 0, 0, time.monotonic()
    while have < size_bytes:
        before = have
        try:
            have = _further(connection, path, kept, have, tag=f'"{sha256}"')
        except _Interrupted as broken:
            have = broken.have
            if have > before:
                silent, heard_at = 0, time.monotonic()
            silent += 1
            is_over = time.monotonic() - heard_at >= connection.retry_for_seconds
            if silent > MIN_SILENT_ATTEMPTS and is_over:
                raise broken.cause from broken
            logger.warning("download of %s interrupted at %d of %d bytes", path, have, size_bytes)
            time.sleep(PAUSES.wait_seconds(silent, random.random()))  # noqa: S311
    if hashlib.sha256(kept).hexdigest() != sha256:
        raise InvalidMessage(f"{path} does not match its manifest: the checksum differs")
    return memoryview(kept).toreadonly()


def save(connection: Connection, path: str, target: Path) -> int:
    """Write the content of `path` to a file in constant memory; return its length in bytes.

    The file appears under its name once it is complete.

    Raises:
        OSError: If the file cannot be written.
        RolldeckError: A subclass for a refusal by the server, or a broken connection.
    """
    begun = target.with_name(f"{target.name}.part")
    try:
        with connection.opened(path, {}) as answer, begun.open("wb") as file:
            size_bytes = sum(file.write(part) for part in answer.stream(PIECE_BYTES))
        begun.replace(target)
    finally:
        begun.unlink(missing_ok=True)
    return size_bytes


class _Interrupted(Exception):
    """The connection ended early; `have` bytes of the file have arrived."""

    def __init__(self, have: int, cause: RolldeckError) -> None:
        super().__init__(str(cause))
        self.have = have
        self.cause = cause


def _further(connection: Connection, path: str, kept: bytearray, have: int, *, tag: str) -> int:
    """Write the received bytes into `kept`; return the length, that of the whole file."""
    headers = {"Accept": "application/octet-stream", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    try:
        with connection.opened(path, headers) as answer:
            have = have if _continues_at(answer, have) else 0
            for chunk in answer.stream(PIECE_BYTES, decode_content=False):
                if have + len(chunk) > len(kept):
                    raise InvalidMessage(f"{path} is longer than the {len(kept)} bytes announced")
                kept[have : have + len(chunk)] = chunk
                have += len(chunk)
    except RolldeckError as failure:
        if isinstance(failure, Unreachable) or failure.status in RETRIED_STATUSES:
            raise _Interrupted(have, failure) from failure
        raise
    if have < len(kept):
        raise InvalidMessage(f"{path} has {have} bytes, not the {len(kept)} announced")
    return have


def _continues_at(answer: Response, have: int) -> bool:
    """Return whether the response begins at byte `have`, as requested."""
    span = answer.headers.get("Content-Range", "")
    return answer.status == 206 and span.startswith(f"bytes {have}-")
