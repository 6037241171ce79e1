"""ASGI middleware that answers 503 where a request fails outside of Django for an outage.

Django turns the errors of views and middleware into responses on a thread. A process without
memory, threads or descriptors cannot start one, and uvicorn would answer 500.
"""

import logging
from collections.abc import Awaitable, Callable

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, HTTPScope
from django.http import HttpRequest

from config.errors import unavailable
from web import outages

logger = logging.getLogger(__name__)

HttpApplication = Callable[[HTTPScope, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]


class OutageAnswers:
    """Outermost ASGI middleware of HTTP requests."""

    def __init__(self, app: HttpApplication) -> None:
        self._app = app

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Pass the request on; answer 503 if it fails for an outage before its response."""
        has_begun = False

        async def track(message: ASGISendEvent) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, track)
        except Exception as error:
            if has_begun or not outages.is_outage(error):
                raise
            logger.warning("service_unavailable: %s", " ".join(str(error).split()))
            request = HttpRequest()
            request.method, request.path = scope["method"], scope["path"]
            accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
            request.META["HTTP_ACCEPT"] = accept
            answer = unavailable(request)
            headers = [
                (name.lower().encode("ascii"), value.encode("latin-1"))
                for name, value in answer.items()
            ]
            length = (b"content-length", str(len(answer.content)).encode())
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status_code,
                    "headers": [*headers, length],
                    "trailers": False,
                }
            )
            await send({"type": "http.response.body", "body": answer.content, "more_body": False})
