"""Bound the cost of a websocket whose client does not read.

uvicorn's ``send`` returns once the client has taken the earlier messages, with no time limit, and
closing a connection first waits for the rest to be sent, possibly without end. Here a ping bounds
all these waits: it follows everything sent before, so a client that does not answer it in time has
not read that. Such a client gets a close frame, waiting senders continue and fail, and unsent data
is discarded soon after.
"""

import asyncio
import socket
from typing import Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

PING_SECONDS: Final = 10.0
PING_TIMEOUT_SECONDS: Final = 20.0
"""Time limit of a ping's answer; with the interval, 30 s after the last read."""
NOT_READING: Final = 4408
CLOSE_REASON: Final = "nothing was read for too long"
KERNEL_BYTES: Final = 128 * 1024
"""Send buffer of a socket; the kernel's default of megabytes hides that nothing is read."""


class SocketsWithTimeouts(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol with a time limit for clients that do not read."""

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
