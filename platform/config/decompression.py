"""Decompress request bodies within limits on output, members and CPU time, when a view reads them.

A view reads the body after authentication, so an unauthorized request costs no decompression.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any, Final, cast

from django.conf import settings
from django.core.exceptions import BadRequest
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from isal import isal_zlib

from buffer.atropos.rules import NAMES as ATROPOS_NAMES
from web import zstd
from web.http.push_answers import CLIENT_LEFT
from web.rules.errors import ApiError, Invalid, TooLarge

# Decompress gzip and zstd request bodies within limits on output, members and CPU time.

ENCODINGS: Final = frozenset({"gzip", "x-gzip", "zstd"})
# A gzip body may be a sequence of members and a zstd body one of frames. Block-wise compressors
# write one for every 64 KiB or more, so 256 MiB need at most 4,096.
MAX_MEMBERS: Final = 8192
MAX_CPU_SECONDS: Final = 5.0
PIECE_BYTES: Final = 1024 * 1024
GZIP_FORMAT: Final = 16 + 15
GZIP_BROKEN: Final = cast("type[Exception]", isal_zlib.error)
# The decompressors copy their unused input, so they get it in small slices.
INPUT_BYTES: Final = 16 * 1024
ZSTD_OPTIONS: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: 27}  # 128 MiB


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
    body: bytes, *, encoding: str, bounds: Bounds, client_left: Callable[[], bool] = lambda: False
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
            given = body[at : at + INPUT_BYTES]
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
    """Yield the content of every zstd frame, at most `PIECE_BYTES` at a time."""
    at = 0
    while at < len(body):
        count_member()
        frame = zstd.ZstdDecompressor(options=ZSTD_OPTIONS)
        while not frame.eof:
            given = body[at : at + INPUT_BYTES] if frame.needs_input else b""
            if frame.needs_input and not given:
                raise BodyBroken("the zstd body ends too early")
            at += len(given)
            try:
                yield frame.decompress(given, PIECE_BYTES)
            except zstd.ZstdError as error:
                raise BodyBroken(f"the body is not valid zstd: {error}") from error
        at -= len(frame.unused_data)


# Decompress a request's body when its view reads it.

# All other routes may read a body before authentication: sign-in, login links, the admin, and the
# CSRF check of each page.
_ROUTES_WITH_PACKED_BODIES: Final = re.compile(
    rf"/api/v1/(?!session(?:/|$)).*|/atropos/.*|/(?:{'|'.join(ATROPOS_NAMES)})", re.DOTALL
)


class CompressedRequest(ASGIRequest):
    """A request whose body may be compressed."""

    def __init__(self, scope: Mapping[str, Any], body_file: IO[bytes]) -> None:
        super().__init__(scope, body_file)
        self._packed = body_file
        self._is_packed = encoding_of(self.META.get("HTTP_CONTENT_ENCODING", "")) != ""
        self._refusal: BadRequest | None = None

    @property
    def body(self) -> bytes:
        """Return the decompressed body."""
        self._unpack()
        return super().body

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        """Read from the decompressed body."""
        self._unpack()
        return super().read(*args, **kwargs)

    def readline(self, *args: Any, **kwargs: Any) -> bytes:
        """Read one line of the decompressed body."""
        self._unpack()
        return super().readline(*args, **kwargs)

    def close(self) -> None:
        """Release the body: Django's middleware puts references to the request on the request."""
        super().close()
        self._body, self._stream = b"", BytesIO()

    def _unpack(self) -> None:
        if not self._is_packed:
            return
        if self._refusal is not None:
            raise self._refusal
        bounds = Bounds(
            decompressed_bytes=settings.ROLLDECK_MAX_DECOMPRESSED_BYTES,
            ratio=settings.ROLLDECK_MAX_DECOMPRESSION_RATIO,
            plain_bytes=settings.ROLLDECK_MAX_BODY_BYTES,
        )
        try:
            whole = decompress(
                self._packed.read(),
                encoding=encoding_of(self.META["HTTP_CONTENT_ENCODING"]),
                bounds=bounds,
                client_left=self.scope.get(CLIENT_LEFT, lambda: False),
            )
        except BadRequest as refusal:
            self._refusal = refusal
            raise
        self._is_packed = False
        self._packed.close()
        self._stream = BytesIO(whole)
        self.META["CONTENT_LENGTH"] = str(len(whole))


class CompressedHandler(ASGIHandler):
    """Django's ASGI application for requests whose bodies may be compressed."""

    request_class = CompressedRequest


def check_compressed(path: str, encoding: str) -> None:
    """Reject a compressed body that no view decompresses.

    Raises:
        UnknownEncoding: If the encoding is unsupported, or the path accepts no compressed bodies.
    """
    check_encoding(encoding)
    if not _ROUTES_WITH_PACKED_BODIES.fullmatch(path):
        raise UnknownEncoding(f"{path} accepts no compressed bodies; send identity")


def encoding_of(header: str) -> str:
    """Return the name of an encoding; "" for a body that is not compressed."""
    name = header.strip().lower()
    return "" if name == "identity" else name
