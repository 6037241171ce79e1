"""Serve static files before Django.

A page that is not in the browser's cache needs a dozen files or more. WhiteNoise indexes all files
with their compressed forms, and handles conditional and range requests. As Django middleware, it
would need a thread and the whole chain of handlers for each file.
"""

from typing import Final

from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from config.body_limits import App, Receive, Scope, Send

METHODS: Final = frozenset({"GET", "HEAD"})
_SAFE: Final = (b"x-content-type-options", b"nosniff")


class StaticFiles:
    """ASGI middleware that serves files and passes all other requests on.

    The files are those of the dashboard and the admin, of at most half a megabyte: each is read
    at once and sent with its length.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._known = WhiteNoiseMiddleware()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file, a range of it, or 304."""
        file = self._requested(scope)
        if file is None:
            await self._app(scope, receive, send)
            return
        found = file.get_response(scope["method"], _as_wsgi(scope))
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        headers = [(name.lower().encode(), value.encode()) for name, value in found.headers]
        start = {"status": int(found.status), "headers": [*headers, _SAFE]}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": content})

    def _requested(self, scope: Scope) -> StaticFile | None:
        known, path = self._known, scope["path"]
        if scope["method"] not in METHODS or not path.startswith(known.static_prefix):
            return None
        return known.find_file(path) if known.autorefresh else known.files.get(path)


def _as_wsgi(scope: Scope) -> dict[str, str]:
    """Return the headers in WSGI's form, which WhiteNoise expects."""
    return {
        f"HTTP_{name.decode('latin-1').upper().replace('-', '_')}": value.decode("latin-1")
        for name, value in scope["headers"]
    }
