"""Send what is made while it is sent, a part at a time, so that any amount of it fits."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import StreamingHttpResponse
from rest_framework.request import Request


class _LoopParts:
    """Parts for an asynchronous server, which would collect a plain iterator in memory."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def _next(self) -> bytes | None:
        try:
            return next(self._parts, None)
        finally:
            # The next part may be made in another thread, which has a connection of its own.
            connections.close_all()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await asyncio.to_thread(self._next)) is not None:
            yield part


def streamed(
    request: Request, parts: Iterator[bytes], *, content_type: str, filename: str
) -> StreamingHttpResponse:
    """Return a file to save, made of parts that are asked for one after the other."""
    is_async = isinstance(request._request, ASGIRequest)  # noqa: SLF001 the only way to it
    return StreamingHttpResponse(
        _LoopParts(parts) if is_async else parts,
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{filename}"',
            "Cache-Control": "private, no-store",
        },
    )
