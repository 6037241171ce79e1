"""Decompress a request's body when its view reads it.

A view reads the body after authentication, so an unauthorized request costs no decompression.
"""

import re
from io import BytesIO
from typing import IO, Any, Final

from django.conf import settings
from django.core.exceptions import BadRequest
from django.core.handlers.asgi import ASGIHandler, ASGIRequest

from buffer.atropos.rules import NAMES as ATROPOS_NAMES
from config.decompression import Bounds, UnknownEncoding, check_encoding, decompress
from web.http.push_answers import CLIENT_LEFT

# All other routes may read a body before authentication: sign-in, login links, the admin, and the
# CSRF check of each page.
_ROUTES_WITH_PACKED_BODIES: Final = re.compile(
    rf"/api/v1/(?!session(?:/|$)).*|/atropos/.*|/(?:{'|'.join(ATROPOS_NAMES)})", re.DOTALL
)


class CompressedRequest(ASGIRequest):
    """A request whose body may be compressed."""

    def __init__(self, scope: dict[str, Any], body_file: IO[bytes]) -> None:
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
