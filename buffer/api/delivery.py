"""Know whether the answer to a push was handed to the connection.

Clients without keys repeat a push whose answer they did not get; what they repeat must not be
stored twice (:mod:`buffer.services.retries`). Only the connection knows whether the answer left.
"""

import asyncio
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
# A client that has hung up is heard of within a few turns of the event loop.
LOOP_TURNS: Final = 5


class Deliveries:
    """ASGI middleware that watches the answers to pushes; the outermost one."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with a watch in its scope when it is a push."""
        if scope["type"] == "http" and scope["path"].endswith(PUSH_PATHS):
            delivery = Delivery(receive, send)
            scope, send = scope | {KEY: delivery}, delivery.send
        await self._app(scope, receive, send)


class Delivery:
    """The way of one answer to its client."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._leaving: asyncio.Future[Message] | None = None
        self._is_cut = False
        self.on_delivered: Callable[[], None] | None = None
        """Called in the event loop when the last byte was handed over."""

    async def send(self, message: Message) -> None:
        """Hand a message over, and note the last one unless the client had left before."""
        if self.on_delivered is None:
            await self._send(message)
            return
        await self._look_for_client(message)
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            if self._leaving is not None:
                self._leaving.cancel()
            if not self._is_cut:
                self.on_delivered()

    async def _look_for_client(self, message: Message) -> None:
        if self._leaving is None:
            # The whole body has come, so there is no other news than the end.
            self._leaving = asyncio.ensure_future(self._receive())
            for _ in range(LOOP_TURNS):
                await asyncio.sleep(0)
        # Once a client has the whole content it may leave: that is no cut.
        if message.get("body") or message["type"] == "http.response.start":
            self._is_cut = self._is_cut or self._leaving.done()


def delivery_of(request: Request) -> Delivery | None:
    """Return the watch over the request's answer; None where nobody watches."""
    inner = request._request  # noqa: SLF001 REST framework hides it
    if not isinstance(inner, ASGIRequest):
        return None
    found: Delivery | None = inner.scope.get(KEY)
    return found
