"""Unpack gzip and zstd with a bound on what comes out."""

from collections.abc import Iterator
from typing import Final, cast

import zstandard
from isal import isal_zlib

# A small body may well shrink a hundredfold; only above this size is that taken for a bomb.
RATIO_COUNTS_ABOVE_BYTES: Final = 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
GZIP_FORMAT: Final = 16 + 15
GZIP_BROKEN: Final = cast("type[Exception]", isal_zlib.error)
# zstd has no bound per call. 2 KiB of input hold at most 512 blocks of 128 KiB.
ZSTD_INPUT_BYTES: Final = 2 * 1024
ZSTD_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024


class UnknownEncoding(Exception):
    """The body has a `Content-Encoding` that nobody here can unpack."""


class BodyBroken(Exception):
    """The body is not what its `Content-Encoding` says."""


class BodyTooLarge(Exception):
    """The body holds more bytes than this server takes."""


def decompress(body: bytes, *, encoding: str, limit_bytes: int, max_ratio: int) -> bytearray:
    """Return the unpacked body.

    Raises:
        UnknownEncoding: If the encoding is neither gzip nor zstd.
        BodyBroken: If the body is damaged or ends too early.
        BodyTooLarge: As soon as more than the limit has come out, or more than `max_ratio` times
            what went in.
    """
    if encoding in {"gzip", "x-gzip"}:
        pieces = _gunzip(body)
    elif encoding == "zstd":
        pieces = _unzstd(body)
    else:
        raise UnknownEncoding(
            f"Content-Encoding {encoding!r} is not known; send gzip, zstd or identity"
        )
    bomb_bytes = max(RATIO_COUNTS_ABOVE_BYTES, max_ratio * len(body))
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > limit_bytes:
            raise BodyTooLarge(
                f"the unpacked body is larger than {limit_bytes} bytes (max_decompressed_bytes)"
            )
        if len(whole) > bomb_bytes:
            raise BodyTooLarge(
                f"the body unpacks to more than {max_ratio} times its size"
                " (max_decompression_ratio)"
            )
    return whole


def _gunzip(body: bytes) -> Iterator[bytes]:
    """Yield the content of every gzip member, at most `PIECE_BYTES` at a time."""
    rest = body
    while rest:
        member = isal_zlib.decompressobj(wbits=GZIP_FORMAT)
        while not member.eof:
            try:
                piece = member.decompress(rest, PIECE_BYTES)
            except GZIP_BROKEN as error:
                raise BodyBroken(f"the body is not valid gzip: {error}") from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if not piece and not rest and not member.eof:
                raise BodyBroken("the gzip body ends too early")
            yield piece


def _unzstd(body: bytes) -> Iterator[bytes]:
    """Yield the content of every zstd frame."""
    rest = memoryview(body)
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
    while rest:
        frame = decompressor.decompressobj()
        while not frame.eof:
            if not rest:
                raise BodyBroken("the zstd body ends too early")
            given, rest = rest[:ZSTD_INPUT_BYTES], rest[ZSTD_INPUT_BYTES:]
            try:
                piece = frame.decompress(given)
            except zstandard.ZstdError as error:
                raise BodyBroken(f"the body is not valid zstd: {error}") from error
            if frame.eof and frame.unused_data:
                consumed = len(given) - len(frame.unused_data)
                rest = memoryview(body)[len(body) - len(rest) - len(given) + consumed :]
            yield piece
