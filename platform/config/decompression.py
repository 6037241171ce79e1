"""Decompress gzip and zstd request bodies within limits on output, members and CPU time."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import zstandard
from django.core.exceptions import BadRequest
from isal import isal_zlib

from web.rules.errors import ApiError, Invalid, TooLarge

ENCODINGS: Final = frozenset({"gzip", "x-gzip", "zstd"})
# A gzip body may be a sequence of members and a zstd body one of frames. Block-wise compressors
# write one for every 64 KiB or more, so 256 MiB need at most 4,096.
MAX_MEMBERS: Final = 8192
MAX_CPU_SECONDS: Final = 5.0
PIECE_BYTES: Final = 1024 * 1024
GZIP_FORMAT: Final = 16 + 15
GZIP_BROKEN: Final = cast("type[Exception]", isal_zlib.error)
# The decompressors copy their unused input, so they get it in small slices.
GZIP_INPUT_BYTES: Final = 16 * 1024
# zstd has no output limit per call. 2 KiB of input hold at most 512 blocks of 128 KiB.
ZSTD_INPUT_BYTES: Final = 2 * 1024
ZSTD_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024


class UnknownEncoding(ApiError, BadRequest):
    """The `Content-Encoding` of a body is not supported."""

    status = 415
    code = "unknown_encoding"
    title = "Unknown encoding"
    field = "Content-Encoding"


class BodyBroken(Invalid, BadRequest):
    """The body does not match its `Content-Encoding`."""

    title = "Body cannot be decompressed"
    field = "body"


class BodyTooLarge(TooLarge, BadRequest):
    """The body, or its decompressed content, exceeds a limit."""

    title = "Body too large"
    field = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits on the decompression of one body."""

    decompressed_bytes: int
    ratio: int
    """Most times its size to which a body decompresses, above `plain_bytes`."""
    plain_bytes: int = 1 << 20
    """Largest body without compression: what fits into it is no bomb. Padding to a fixed length
    shrinks several hundredfold.
    """
    members: int = MAX_MEMBERS
    cpu_seconds: float = MAX_CPU_SECONDS


def check_encoding(encoding: str) -> None:
    """Reject an encoding that this server cannot decompress.

    Raises:
        UnknownEncoding: If the encoding is neither gzip nor zstd.
    """
    if encoding not in ENCODINGS:
        raise UnknownEncoding(
            f"Content-Encoding {encoding!r} is not supported; send gzip, zstd or identity"
        )


def decompress(
    body: bytes,
    *,
    encoding: str,
    bounds: Bounds,
    client_left: Callable[[], bool] = lambda: False,
) -> bytearray:
    """Return the decompressed body.

    Raises:
        UnknownEncoding: If the encoding is neither gzip nor zstd.
        BodyBroken: If the body is damaged or ends too early, or the client left.
        BodyTooLarge: As soon as a limit is exceeded.
    """
    check_encoding(encoding)
    members = _unzstd if encoding == "zstd" else _gunzip
    meter = _Meter(len(body), bounds)
    whole = bytearray()
    for piece in members(memoryview(body), meter.count_member):
        whole += piece
        meter.check(len(whole))
        if client_left():
            raise BodyBroken("the client closed the connection")
    return whole


class _Meter:
    """The work caused by one body so far."""

    def __init__(self, body_bytes: int, bounds: Bounds) -> None:
        self._bounds = bounds
        self._bomb_bytes = max(bounds.plain_bytes, bounds.ratio * body_bytes)
        self._members = 0
        self._began = time.thread_time()

    def count_member(self) -> None:
        """Count one gzip member or zstd frame."""
        self._members += 1
        if self._members > self._bounds.members:
            raise BodyTooLarge(
                f"the body has more than {self._bounds.members} gzip members or zstd frames"
            )

    def check(self, decompressed_bytes: int) -> None:
        """Compare the work so far with the limits."""
        bounds = self._bounds
        if decompressed_bytes > bounds.decompressed_bytes:
            raise BodyTooLarge(
                f"the decompressed body is larger than {bounds.decompressed_bytes} bytes"
                " (max_decompressed_bytes)"
            )
        if decompressed_bytes > self._bomb_bytes:
            raise BodyTooLarge(
                f"the body decompresses to more than {bounds.ratio} times its size"
                " (max_decompression_ratio)"
            )
        if time.thread_time() - self._began > bounds.cpu_seconds:
            raise BodyTooLarge(
                f"the body takes more than {bounds.cpu_seconds:g} seconds of processor time to"
                " decompress"
            )


def _gunzip(body: memoryview, count_member: Callable[[], None]) -> Iterator[bytes]:
    """Yield the content of every gzip member, at most `PIECE_BYTES` at a time."""
    at = 0
    while at < len(body):
        count_member()
        member = isal_zlib.decompressobj(wbits=GZIP_FORMAT)
        while not member.eof:
            given = body[at : at + GZIP_INPUT_BYTES]
            if not given:
                raise BodyBroken("the gzip body ends too early")
            at += len(given)
            yield from _inflated(member, given)
        at -= len(member.unused_data)


def _inflated(member: Any, given: bytes | memoryview) -> Iterator[bytes]:
    """Yield the content of one slice of a gzip member."""
    while True:
        try:
            piece = member.decompress(given, PIECE_BYTES)
        except GZIP_BROKEN as error:
            raise BodyBroken(f"the body is not valid gzip: {error}") from error
        yield piece
        given = member.unconsumed_tail
        if member.eof or (not given and len(piece) < PIECE_BYTES):
            return


def _unzstd(body: memoryview, count_member: Callable[[], None]) -> Iterator[bytes]:
    """Yield the content of every zstd frame."""
    at = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
    while at < len(body):
        count_member()
        frame = decompressor.decompressobj()
        while not frame.eof:
            given = body[at : at + ZSTD_INPUT_BYTES]
            if not given:
                raise BodyBroken("the zstd body ends too early")
            at += len(given)
            try:
                yield frame.decompress(given)
            except zstandard.ZstdError as error:
                raise BodyBroken(f"the body is not valid zstd: {error}") from error
        at -= len(frame.unused_data)
