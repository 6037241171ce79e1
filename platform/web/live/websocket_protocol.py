"""Bound the cost of a websocket whose client does not read, and frame shared messages once.

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
from functools import lru_cache
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame, Opcode
from websockets.protocol import State

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
            self.transport.write(framed(text, self._window_bits))

    @property
    def _window_bits(self) -> int | None:
        """Window size of the client's decompression; None without compression."""
        for extension in self.conn.extensions:
            if isinstance(extension, PerMessageDeflate):
                return extension.local_max_window_bits
        return None
