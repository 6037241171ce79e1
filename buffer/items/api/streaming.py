"""Stream generated files part by part in bounded memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import StreamingHttpResponse
from rest_framework.request import Request


class _LoopParts:
    """Asynchronous iterator over parts; ASGI would collect a plain iterator in memory."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def _next(self) -> bytes | None:
        try:
            return next(self._parts, None)
        finally:
            # The next part may be generated in another thread with its own connection.
            connections.close_all()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await asyncio.to_thread(self._next)) is not None:
            yield part


def streamed(
    request: Request, parts: Iterator[bytes], *, content_type: str, filename: str
) -> StreamingHttpResponse:
    """Return a file download whose parts are generated on demand."""
    is_async = isinstance(request._request, ASGIRequest)  # noqa: SLF001 the only way to it
    return StreamingHttpResponse(
        _LoopParts(parts) if is_async else parts,
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{filename}"',
            "Cache-Control": "private, no-store",
        },
    )
