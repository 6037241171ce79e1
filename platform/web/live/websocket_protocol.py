"""WebSocket connections: origins, limits and outgoing messages.

Browsers attach cookies to websockets opened by any page, without a same-origin check. Programs on
one machine that serve pages on `127.0.0.1` all share that host's cookies.

uvicorn's ``send`` returns once the client has taken the earlier messages, with no time limit, and
closing a connection first waits for the rest to be sent, possibly without end. Here a ping bounds
all these waits: it follows everything sent before, so a client that does not answer it in time has
not read that. Such a client gets a close frame, waiting senders continue and fail, and unsent data
is discarded soon after.

Hundreds of pages that watch a run receive the same messages. uvicorn encodes, compresses and
frames a message for every socket, each with its own compression history, so the bytes differ.
Here each message is compressed on its own, and only if it is long. Its bytes are then the same
for all sockets with the same window size, and are computed once.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import lru_cache
from sys import getsizeof
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, WebSocketScope
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame, Opcode
from websockets.protocol import State

# Restrict websockets to the deployment's own pages.

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
Origin = tuple[str, str, int | None]


class SocketOrigins:
    """ASGI middleware that rejects a websocket with a foreign Origin.

    Scheme, host and port must equal those of the request, of ROLLDECK_PUBLIC_URL or of one of
    ROLLDECK_TRUSTED_ORIGINS. A Host outside of ROLLDECK_ALLOWED_HOSTS is rejected, too.
    """

    def __init__(self, app: ASGI3Application) -> None:
        self._app = app

    async def __call__(
        self, scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Pass the websocket on, or reject it."""
        app = self._app if is_own(scope) else WebsocketDenier()
        await app(scope, receive, send)


def is_own(scope: WebSocketScope) -> bool:
    """Return whether a websocket's page has the deployment's origin."""
    origins, hosts = _header(scope, b"origin"), _header(scope, b"host")
    if len(origins) != 1 or len(hosts) != 1:
        return False
    origin = _parsed(origins[0])
    # Behind a proxy that terminates TLS, the connection to this server has none.
    is_secure = settings.SESSION_COOKIE_SECURE or scope.get("scheme", "ws") == "wss"
    own = _parsed(f"{'https' if is_secure else 'http'}://{hosts[0]}")
    if origin is None or own is None or not validate_host(own[1], settings.ALLOWED_HOSTS):
        return False
    trusted = (settings.ROLLDECK_PUBLIC_URL, *settings.CSRF_TRUSTED_ORIGINS)
    return origin == own or any(_matches(origin, one) for one in trusted)


def _matches(origin: Origin, trusted: str) -> bool:
    """Return whether the origins match; `https://*.example.org` matches any subdomain."""
    if "://*." not in trusted:
        return origin == _parsed(trusted)
    parent = _parsed(trusted.replace("://*.", "://", 1))
    if parent is None:
        return False
    scheme, host, port = parent
    return origin[1].endswith(f".{host}") and (origin[0], origin[2]) == (scheme, port)


def _header(scope: WebSocketScope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for known, value in scope["headers"] if known == name]


def _parsed(url: str) -> Origin | None:
    try:
        parts: SplitResult = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host or parts.username is not None:
        return None
    host = f"[{host}]" if ":" in host else host
    return parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme]


# Bounded queue of the frames to send to one page.

QUEUE_FRAMES: Final = 32
# With the buffers of the connection and the kernel, less than a megabyte per page.
QUEUE_BYTES: Final = 640 * 1024


class Socket:
    """One connected page: a bounded queue of frames, and its last sequence numbers.

    `sequences` maps each of its topics to the number of the last queued frame, or None when a
    snapshot is due.
    """

    def __init__(self) -> None:
        self.frames: asyncio.Queue[str] = asyncio.Queue(maxsize=QUEUE_FRAMES)
        self.visible = True
        self.sequences: dict[str, int | None] = {}
        self.waiting_bytes = 0
        """Bytes queued or being sent."""

    def offer(self, frame: str) -> bool:
        """Queue a frame; return False if the queue is full.

        A frame above the limit is accepted when the queue is empty.
        """
        size = getsizeof(frame)
        if self.waiting_bytes and self.waiting_bytes + size > QUEUE_BYTES:
            return False
        try:
            self.frames.put_nowait(frame)
        except asyncio.QueueFull:
            return False
        self.waiting_bytes += size
        return True

    async def send_next(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Wait for a frame and send it."""
        frame = await self.frames.get()
        try:
            await send(frame)
        finally:
            self.waiting_bytes -= getsizeof(frame)

    @property
    def has_room(self) -> bool:
        """Whether there is room for a snapshot."""
        return self.frames.qsize() < QUEUE_FRAMES // 2 and self.waiting_bytes < QUEUE_BYTES // 2


# Bound the cost of a websocket whose client does not read, and frame shared messages once.

PING_SECONDS: Final = 10.0
PING_TIMEOUT_SECONDS: Final = 20.0
"""Time limit of a ping's answer; with the interval, 30 s after the last read."""
NOT_READING: Final = 4408
CLOSE_REASON: Final = "nothing was read for too long"
KERNEL_BYTES: Final = 128 * 1024
"""Send buffer of a socket; the kernel's default of megabytes hides that nothing is read."""
COMPRESSED_FROM_BYTES: Final = 2048
"""Minimum size for compression; a shorter message fits into two packets."""
REMEMBERED: Final = 8
_PACKING: Final = {"level": 1}
_DEFLATE: Final = ServerPerMessageDeflateFactory(
    server_no_context_takeover=True, client_no_context_takeover=True, compress_settings=_PACKING
)


@lru_cache(maxsize=REMEMBERED)
def framed(text: str, window_bits: int | None) -> bytes:
    """Return a message's frame for all sockets with this window size (None: no compression)."""
    frame = Frame(Opcode.TEXT, text.encode())
    if window_bits is None or len(frame.data) < COMPRESSED_FROM_BYTES:
        return frame.serialize(mask=False)
    packing = PerMessageDeflate(True, True, window_bits, window_bits, _PACKING)
    return frame.serialize(mask=False, extensions=[packing])


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol with a time limit for clients that do not read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.available_extensions = [_DEFLATE]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Limit the kernel's send buffer, so that unread data becomes visible."""
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)

    def pause_writing(self) -> None:
        """Pause senders, except after a disconnect."""
        if not self.disconnected:
            super().pause_writing()

    def handle_ping(self) -> None:
        """Answer a ping, unless earlier answers are still unread."""
        answer = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(answer)

    def keepalive_timeout(self) -> None:
        """Disconnect a client that has not read in time, and release the waiting senders."""
        self.pong_timer = self.pending_ping_payload = None
        if self.close_sent or self.transport.is_closing():
            return
        if self.conn.state is State.OPEN:
            self.conn.send_close(NOT_READING, CLOSE_REASON)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self.disconnected = True
        self.writable.set()
        self.queue.put_nowait(
            {"type": "websocket.disconnect", "code": NOT_READING, "reason": CLOSE_REASON}
        )
        # Resume reading: unread input at the close would reset the connection and lose the rest.
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        """Discard data still unsent soon after the end."""
        super().on_task_complete(task)
        self.loop.call_later(self.close_timeout, self.transport.abort)

    async def send(self, message: Any) -> None:
        """Send a message of the application; text frames are shared between sockets."""
        text = message.get("text")
        if text is not None:
            await self.writable.wait()
        if text is None or self.disconnected or self.conn.state is not State.OPEN:
            await super().send(message)
        else:
            window_bits = next(
                (
                    extension.local_max_window_bits
                    for extension in self.conn.extensions
                    if isinstance(extension, PerMessageDeflate)
                ),
                None,
            )
            self.transport.write(framed(text, window_bits))
