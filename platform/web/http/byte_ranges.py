"""Stream a file or a byte range of it (RFC 9110, sections 13 and 14)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import IO, Final

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from web.http import problems
from web.rules.errors import ApiError

CHUNK_BYTES: Final = 1 << 20


class UnreadableRange(ApiError):
    """The Range header requests bytes beyond the file."""

    status = 416
    code = "range_not_satisfiable"
    title = "Range outside the file"
    field = "Range"

    def __init__(self, size: int) -> None:
        super().__init__(f"the range contains none of the file's {size} bytes")


def byte_range(header: str, *, size: int) -> tuple[int, int] | None:
    """Return the first and last byte (inclusive) that a Range header requests.

    None means the whole file: the header is absent, or one that a server may ignore (another unit,
    several ranges, invalid syntax).

    Raises:
        UnreadableRange: If no byte of the range is in a file of `size` bytes.
    """
    unit, _, span = header.partition("=")
    first, dash, last = span.strip().partition("-")
    digits = all(part == "" or (part.isascii() and part.isdigit()) for part in (first, last))
    if unit.strip().lower() != "bytes" or not dash or not digits or not (first or last):
        return None
    if not first:
        begin, end = max(size - int(last), 0), size - 1
    else:
        begin, end = int(first), min(int(last), size - 1) if last else size - 1
        if last and int(last) < begin:
            return None
    if begin >= size or (not first and int(last) == 0):
        raise UnreadableRange(size)
    return begin, end


class Chunks:
    """`length` bytes of an open file, for threads and for the event loop."""

    def __init__(self, file: IO[bytes], *, begin: int, length: int) -> None:
        self._file = file
        self._file.seek(begin)
        self._left = length

    def _next(self) -> bytes:
        chunk = self._file.read(min(CHUNK_BYTES, self._left))
        self._left -= len(chunk)
        return chunk

    def close(self) -> None:
        """Close the file; the response calls this in any case."""
        self._file.close()


class ThreadChunks(Chunks):
    """Chunks for a synchronous server."""

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._next():
            yield chunk


class LoopChunks(Chunks):
    """Chunks for an asynchronous server, which would buffer a plain iterator in memory."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await asyncio.to_thread(self._next):
            yield chunk


def respond(request: Request, file: IO[bytes], *, size: int, etag: str) -> HttpResponseBase:
    """Return the file, the requested range, or 304 if unchanged."""
    tag = f'"{etag}"'
    if tag in request.headers.get("If-None-Match", ""):
        file.close()
        return HttpResponseNotModified(headers={"ETag": tag})
    requested = request.headers.get("Range", "")
    if request.headers.get("If-Range", tag) != tag:
        requested = ""
    try:
        span = byte_range(requested, size=size)
    except UnreadableRange as error:
        file.close()
        return problems.respond(error, headers={"Content-Range": f"bytes */{size}"})
    begin, end = span or (0, size - 1)
    is_async = isinstance(request._request, ASGIRequest)  # noqa: SLF001 the only way to it
    chunks = (LoopChunks if is_async else ThreadChunks)(file, begin=begin, length=end - begin + 1)
    response = StreamingHttpResponse(
        chunks,
        status=206 if span else 200,
        content_type="application/octet-stream",
        headers={
            "ETag": tag,
            "Accept-Ranges": "bytes",
            "Content-Length": str(end - begin + 1),
            # The bytes of a version are immutable.
            "Cache-Control": "private, max-age=31536000, immutable",
        },
    )
    if span:
        response["Content-Range"] = f"bytes {begin}-{end}/{size}"
    return response
