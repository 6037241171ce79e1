"""ASGI middleware that detects whether a client read the answer to a push.

Clients without idempotency keys repeat a push whose answer they did not receive. Such a repeat
must not be stored twice (:mod:`buffer.ingest.services.idempotency`). Only the connection knows
whether the answer was read.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from django.core.handlers.asgi import ASGIRequest
from rest_framework.request import Request

Message = Mapping[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PUSH_PATHS: Final = ("/scored_data", "/scored_data_list")
KEY: Final = "rolldeck.delivery"
HUNG_UP: Final = "rolldeck.client_hung_up"
"""Scope key of a function of the server: returns whether the client hung up."""
WHEN_READ: Final = "rolldeck.when_answer_was_read"
"""Scope key of a function of the server: reports whether the client read an answer."""


class ResponseDelivery:
    """Outermost ASGI middleware, which tracks the delivery of answers to pushes."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; for pushes, add a :class:`Delivery` to its scope."""
        if scope["type"] == "http" and scope["path"].endswith(PUSH_PATHS):
            delivery = Delivery(
                send,
                hung_up=scope.get(HUNG_UP, _report_hung_up),
                when_read=scope.get(WHEN_READ, _at_once),
            )
            scope, send = scope | {KEY: delivery}, delivery.send
        await self._app(scope, receive, send)


class Delivery:
    """Delivery state of one answer."""

    def __init__(
        self,
        send: Send,
        *,
        hung_up: Callable[[], bool],
        when_read: Callable[[Callable[[bool], None]], None],
    ) -> None:
        self._send = send
        self._hung_up = hung_up
        self._when_read = when_read
        self._client_was_there: bool | None = None
        self.on_sent: Callable[[], None] | None = None
        """Called in the event loop when the last byte was handed to the connection."""
        self.on_read: Callable[[bool], None] | None = None
        """Called in the event loop, after `on_sent`, with whether the client read the answer."""

    async def send(self, message: Message) -> None:
        """Send a message; report the last one unless the client had already hung up."""
        if self.on_sent is None or self.on_read is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        # Checked once, before the first part: a client may hang up once it has the whole content.
        if self._client_was_there is None:
            self._client_was_there = not self._hung_up()
        await self._send(message)
        if self._client_was_there and not message.get("more_body"):
            self.on_sent()
            self._when_read(self.on_read)


def _at_once(note: Callable[[bool], None]) -> None:
    """Report the answer as read; for servers that cannot detect it."""
    note(True)


def _report_hung_up() -> bool:
    """Report the client as hung up; for servers that cannot detect it."""
    return True


def delivery_of(request: Request) -> Delivery | None:
    """Return the delivery state of the request's answer; None if it is not tracked."""
    inner = request._request  # noqa: SLF001 REST framework hides it
    if not isinstance(inner, ASGIRequest):
        return None
    found: Delivery | None = inner.scope.get(KEY)
    return found
