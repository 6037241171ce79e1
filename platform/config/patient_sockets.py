"""Bound what a websocket costs whose other side does not read.

A ``send`` of uvicorn returns when the other side takes what was sent before, however long that is,
and a connection that it gives up first waits to get rid of the rest, which may be never. Here one
thing ends all such waiting: a ping comes after everything that was sent, so who does not answer it
in time has not read that. It is told so by a close frame behind the rest, whoever waits to send
goes on and fails, and what is not taken soon after is thrown away.
"""

import asyncio
import socket
from typing import Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

PING_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 20.0
"""A ping that is not answered for this long: together half a minute since something was read."""
NOT_READING: Final = 4408
WHY: Final = "nothing was read for too long"
KERNEL_BYTES: Final = 128 * 1024
"""The kernel would keep megabytes for each socket, and tell nobody that they are not read."""


class PatientSockets(WebSocketsSansIOProtocol):
    """uvicorn's websocket, but for how it parts from who does not read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bound what the kernel keeps, so that what is not read is noticed."""
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)

    def pause_writing(self) -> None:
        """Let those who send wait, but not for one that was parted from."""
        if not self.disconnected:
            super().pause_writing()

    def handle_ping(self) -> None:
        """Answer; but answers that nobody reads do not heap up."""
        answer = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(answer)

    def keepalive_timeout(self) -> None:
        """Part from who has not read for so long, and let nobody wait for it."""
        self.pong_timer = self.pending_ping_payload = None
        if self.close_sent or self.transport.is_closing():
            return
        if self.conn.state is State.OPEN:
            self.conn.send_close(NOT_READING, WHY)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self.disconnected = True
        self.writable.set()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": NOT_READING, "reason": WHY})
        # Open until it answers: what it says to a closed connection would take the rest from it.
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        """Throw away what is not taken soon after the end."""
        super().on_task_complete(task)
        self.loop.call_later(self.close_timeout, self.transport.abort)
