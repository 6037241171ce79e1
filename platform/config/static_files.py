"""Serve static files before Django.

A page that is not in the browser's cache needs a dozen files or more. WhiteNoise indexes all files
with their compressed forms, and handles conditional and range requests. As Django middleware, it
would need a thread and the whole chain of handlers for each file.
"""

from typing import Final

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, HTTPScope
from whitenoise.middleware import WhiteNoiseMiddleware

from config.middleware import DATA, transport_security

METHODS: Final = frozenset({"GET", "HEAD"})


class StaticFiles:
    """ASGI middleware that serves files and passes all other requests on.

    The files are those of the dashboard and the admin, of at most half a megabyte: each is read
    at once and sent with its length.
    """

    def __init__(self, app: ASGI3Application) -> None:
        self._app = app
        self._known = WhiteNoiseMiddleware()
        self._safe = [
            (b"x-content-type-options", b"nosniff"),
            (b"content-security-policy", DATA.encode()),
        ]
        if transport := transport_security():
            self._safe.append((b"strict-transport-security", transport.encode()))

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Send a file, a range of it, or 304."""
        known, path = self._known, scope["path"]
        file = None
        if scope["method"] in METHODS and path.startswith(known.static_prefix):
            file = known.find_file(path) if known.autorefresh else known.files.get(path)
        if file is None:
            await self._app(scope, receive, send)
            return
        # WhiteNoise expects the headers in WSGI's form.
        environ = {
            f"HTTP_{name.decode('latin-1').upper().replace('-', '_')}": value.decode("latin-1")
            for name, value in scope["headers"]
        }
        response = file.get_response(scope["method"], environ)
        content = b""
        if response.file is not None:
            with response.file:
                content = response.file.read()
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers]
        await send(
            {
                "type": "http.response.start",
                "status": int(response.status),
                "headers": [*headers, *self._safe],
                "trailers": False,
            }
        )
        await send({"type": "http.response.body", "body": content, "more_body": False})
