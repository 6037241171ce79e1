"""ASGI middleware that reports when the answer to a push is written to the connection.

Clients without idempotency keys repeat a push whose answer they did not receive
(:mod:`buffer.ingest.services.idempotency`).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, cast

from asgiref.typing import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    Scope,
)
from django.core.handlers.asgi import ASGIRequest
from django.utils import timezone
from rest_framework.request import Request

PUSH_PATHS: Final = ("/scored_data", "/scored_data_list")
KEY: Final = "rolldeck.push_answer"
CLIENT_LEFT: Final = "rolldeck.client_left"
"""Scope key of a function of the server: returns whether the client has closed the connection."""
WAS_RESET: Final = "rolldeck.connection_was_reset"
"""Scope key of a function of the server: returns whether the client closed with unread bytes."""


class PushAnswers:
    """ASGI middleware that tracks the answers to pushes."""

    def __init__(self, app: ASGI3Application) -> None:
        self._app = app

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Pass the request on; add a :class:`PushAnswer` to the scope of a push."""
        if scope["type"] == "http" and scope["path"].endswith(PUSH_PATHS):
            own: dict[str, Any] = {**scope}
            answer = PushAnswer(
                send,
                client_left=own.get(CLIENT_LEFT, _never),
                was_reset=own.get(WAS_RESET, _never),
                arrived_at=timezone.now(),
            )
            scope, send = cast("Scope", own | {KEY: answer}), answer.send
        await self._app(scope, receive, send)


class PushAnswer:
    """The answer to one push."""

    def __init__(
        self,
        send: ASGISendCallable,
        *,
        client_left: Callable[[], bool],
        was_reset: Callable[[], bool],
        arrived_at: datetime,
    ) -> None:
        self._send, self._was_reset = send, was_reset
        self.client_left = client_left
        """Returns whether the client has closed the connection."""
        self.arrived_at = arrived_at
        """Time at which the head of the request arrived."""
        self.on_end: Callable[[datetime | None], None] | None = None
        """Called in the event loop with the time of the last part; None if the client has left."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message; report the last one."""
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if not is_last or self.on_end is None:
            await self._send(message)
            return
        # Taken before: a client that has the answer can send the next push at once.
        had_left, now = self.client_left(), timezone.now()
        await self._send(message)
        # The client may have closed between the check and the write, if the process was stopped.
        self.on_end(None if had_left or self._was_reset() else now)


def answer_of(request: Request) -> PushAnswer | None:
    """Return the tracked answer of a request; None without this middleware."""
    inner = request._request  # noqa: SLF001 REST framework hides it
    if not isinstance(inner, ASGIRequest):
        return None
    found: PushAnswer | None = inner.scope.get(KEY)
    return found


def _never() -> bool:
    """Report no closed connection; for servers that cannot detect it."""
    return False
