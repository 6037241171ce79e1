"""Count request bodies while they are read, and reject those that are too large or too slow.

A body with a `Content-Length` streams through. A chunked body is first held in memory, up to the
limit, because REST framework treats a body without a length as empty. Compressed bodies stay
compressed here; :mod:`config.decompression` decompresses them after authentication.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final

import msgspec
from asgiref.typing import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
)
from django.conf import settings

from buffer.tokenizers.rules import MOST_FILE_BYTES
from config.decompression import BodyTooLarge, check_compressed, encoding_of
from web.http.problems import headers_of, problem_of
from web.rules.errors import ApiError, Invalid

# Time for which a rejected client may continue to send before the connection is closed: many
# clients read a response only after they have sent everything.
DRAIN_SECONDS: Final = 5.0
WEIGHTS_PATH: Final = re.compile(r"/api/v1/runs/[^/]+/weights/?")
TOKENIZER_PATH: Final = re.compile(r"/api/v1/runs/[^/]+/tokenizer/?")


class BodyTooSlow(ApiError):
    """The client stopped in the middle of its body, or sent it too slowly."""

    status = 408
    code = "too_slow"
    title = "Body did not arrive"
    field = "body"


class LengthMissing(ApiError):
    """An upload of weights has no `Content-Length`."""

    status = 411
    code = "length_required"
    title = "Length missing"
    field = "Content-Length"


class LengthInvalid(Invalid):
    """`Content-Length` is not a number."""

    title = "Content-Length cannot be read"
    field = "Content-Length"


class _Disconnected(Exception):
    """The client has disconnected, so no response is sent."""


class BodyLimits:
    """ASGI middleware around Django's HTTP application."""

    def __init__(
        self,
        app: ASGI3Application,
        *,
        idle_seconds: float | None = None,
        min_bytes_per_second: float | None = None,
        on_refusal: Callable[[str, ApiError], None] = lambda _path, _refusal: None,
    ) -> None:
        self._app, self._on_refusal = app, on_refusal
        if min_bytes_per_second is None:
            min_bytes_per_second = settings.ROLLDECK_MIN_BODY_BYTES_PER_SECOND
        self._min_bytes_per_second = min_bytes_per_second
        # A client that sends nothing for this long in the middle of a body counts as gone.
        self._idle_seconds = idle_seconds or float(settings.ROLLDECK_MAX_IDLE_SECONDS)

    async def __call__(
        self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Pass the request on, or reject it."""
        if scope["type"] != "http" or not any(
            name in {b"content-length", b"transfer-encoding"} for name, _ in scope["headers"]
        ):
            await self._app(scope, receive, send)
            return
        started = _Started(send)
        body = _CountedBody(
            receive,
            idle_seconds=self._idle_seconds,
            min_bytes_per_second=self._min_bytes_per_second,
        )
        try:
            await self._pass_on(scope, body, started)
        except _Disconnected:
            return
        except ApiError as refusal:
            if started.yes:
                raise
            self._on_refusal(scope["path"], refusal)
            await _refuse(
                refusal,
                body,
                send,
                expects_continue=_header(scope, b"expect").lower() == "100-continue",
            )

    async def _pass_on(self, scope: HTTPScope, body: "_CountedBody", send: "_Started") -> None:
        given = _header(scope, b"content-length")
        if given and not (given.isascii() and given.isdigit()):
            raise LengthInvalid(f"Content-Length is {given!r}")
        length = int(given) if given else None
        encoding = encoding_of(_header(scope, b"content-encoding"))
        is_weights = WEIGHTS_PATH.fullmatch(scope["path"]) is not None
        plain = encoding == ""
        body.limit_name = "weights_bytes" if is_weights and plain else "body_bytes"
        body.limit_bytes = getattr(settings, f"ROLLDECK_MAX_{body.limit_name.upper()}")
        if TOKENIZER_PATH.fullmatch(scope["path"]):
            body.limit_name, body.limit_bytes = "tokenizer_bytes", MOST_FILE_BYTES
        if length is not None and length > body.limit_bytes:
            raise body.too_large()
        if not plain:
            check_compressed(scope["path"], encoding)
        if length is not None:
            await self._app(scope, body.receive_or_hang_up, send)
            if body.refusal is not None:
                raise body.refusal
            return
        if is_weights:
            raise LengthMissing("weights require a Content-Length")
        whole = await body.read_all()
        headers = [pair for pair in scope["headers"] if pair[0] != b"transfer-encoding"]
        headers.append((b"content-length", str(len(whole)).encode()))
        with_length: HTTPScope = {**scope, "headers": headers}
        await self._app(with_length, body.replaying(whole), send)


class _Started:
    """A send channel that records whether a response has begun."""

    def __init__(self, send: ASGISendCallable) -> None:
        self._send = send
        self.yes = False

    async def __call__(self, message: ASGISendEvent) -> None:
        self.yes = True
        await self._send(message)


class _CountedBody:
    """The body of one request, counted as it arrives."""

    def __init__(
        self, receive: ASGIReceiveCallable, *, idle_seconds: float, min_bytes_per_second: float
    ) -> None:
        self._receive = receive
        self._idle_seconds = idle_seconds
        self._min_bytes_per_second = min_bytes_per_second
        # Time that the client may still keep the server waiting. Waiting consumes it, each byte
        # adds its transfer time at the minimum rate, and it never exceeds the initial value.
        self._credit_seconds = idle_seconds
        self._seen_bytes = 0
        self.limit_bytes = 0
        self.limit_name = ""
        self.complete = False
        self.refusal: ApiError | None = None

    def too_large(self) -> BodyTooLarge:
        """Return the error for a body over the limit."""
        return BodyTooLarge(
            f"the body is larger than {self.limit_bytes} bytes (max_{self.limit_name})"
        )

    async def receive_or_hang_up(self) -> ASGIReceiveEvent:
        """Return the next message; a rejected body appears to Django as a disconnect."""
        try:
            return await self.receive()
        except ApiError as refusal:
            self.refusal = refusal
            return {"type": "http.disconnect"}

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message.

        Raises:
            BodyTooLarge: As soon as more than `limit_bytes` have arrived.
            BodyTooSlow: If the body stalls or arrives below the minimum rate.
        """
        if self.complete:  # Django now only waits for the disconnect
            return await self._receive()
        message, waited_seconds = await self._in_time()
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._seen_bytes += size
            if self._min_bytes_per_second > 0:
                left = max(self._credit_seconds - waited_seconds, 0.0)
                earned = size / self._min_bytes_per_second
                self._credit_seconds = min(left + earned, self._idle_seconds)
            self.complete = not message.get("more_body", False)
            if self._seen_bytes > self.limit_bytes:
                raise self.too_large()
        else:
            self.complete = True
        return message

    async def _in_time(self) -> tuple[ASGIReceiveEvent, float]:
        """Return the next message and the seconds it took to arrive."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._credit_seconds):
                message = await self._receive()
        except TimeoutError:
            if self._credit_seconds < self._idle_seconds:
                raise BodyTooSlow(
                    f"the body arrives at less than {self._min_bytes_per_second:g} bytes a second"
                    " (ROLLDECK_MIN_BODY_BYTES_PER_SECOND)"
                ) from None
            raise BodyTooSlow(f"no byte came for {self._idle_seconds:g} seconds") from None
        return message, clock() - began

    async def read_all(self) -> bytearray:
        """Return the whole body."""
        whole = bytearray()
        while not self.complete:
            message = await self.receive()
            if message["type"] != "http.request":
                raise _Disconnected
            whole += message.get("body", b"")
        return whole

    async def drain(self) -> None:
        """Discard the rest of the body, for at most :data:`DRAIN_SECONDS`."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.complete:
                    message = await self._receive()
                    self.complete = not message.get("more_body", False)
        except TimeoutError:
            return

    def replaying(self, whole: bytearray) -> ASGIReceiveCallable:
        """Return a receive channel that yields a body once, then the client's messages."""
        left = [whole]

        async def receive() -> ASGIReceiveEvent:
            if left:
                body = left.pop()  # not copied to bytes: it may be large
                return {"type": "http.request", "body": body, "more_body": False}  # type: ignore[typeddict-item]
            return await self._receive()

        return receive


async def _refuse(
    refusal: ApiError, body: _CountedBody, send: ASGISendCallable, *, expects_continue: bool
) -> None:
    content = msgspec.json.encode(problem_of(refusal))
    headers = [
        *((name.lower().encode(), value.encode()) for name, value in headers_of(refusal).items()),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    await send(
        {
            "type": "http.response.start",
            "status": refusal.status,
            "headers": headers,
            "trailers": False,
        }
    )
    await send({"type": "http.response.body", "body": content, "more_body": True})
    # Reading on would send "100 Continue" to a client that waits for it.
    if not expects_continue and not isinstance(refusal, BodyTooSlow):
        await body.drain()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _header(scope: HTTPScope, header_name: bytes) -> str:
    return ",".join(
        value.decode("latin-1") for name, value in scope["headers"] if name == header_name
    )
