"""Frame a live message once for all sockets that receive it.

Hundreds of pages that watch a run receive the same messages. uvicorn encodes, compresses and
frames a message for every socket, each with its own compression history, so the bytes differ.
Here each message is compressed on its own, and only if it is long. Its bytes are then the same
for all sockets with the same window size, and are computed once.
"""

from functools import lru_cache
from typing import Any, Final

from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from config.socket_timeouts import SocketsWithTimeouts

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


class SharedFrames(SocketsWithTimeouts):
    """uvicorn's websocket protocol with shared frames for text messages."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.available_extensions = [_DEFLATE]

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
