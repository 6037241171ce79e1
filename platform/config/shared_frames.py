"""Frame a message of a live page once for all sockets that it goes to.

Two hundred pages that watch a run are told the same words. uvicorn encodes, compresses and frames
them for every socket anew, and each with a history of its own, so that no two get the same bytes.
Here a message is compressed by itself, and only where it is long; then its bytes are the same for
every socket with the same window, and are made once.
"""

from functools import lru_cache
from typing import Any, Final

from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from config.patient_sockets import PatientSockets

PACKED_FROM_BYTES: Final = 2048
"""What is shorter fits into two packets as it is."""
REMEMBERED: Final = 8
_PACKING: Final = {"level": 1}
_DEFLATE: Final = ServerPerMessageDeflateFactory(
    server_no_context_takeover=True, client_no_context_takeover=True, compress_settings=_PACKING
)


@lru_cache(maxsize=REMEMBERED)
def framed(text: str, window_bits: int | None) -> bytes:
    """Return the bytes of a message for every socket that agreed on a window (None: on none)."""
    frame = Frame(Opcode.TEXT, text.encode())
    if window_bits is None or len(frame.data) < PACKED_FROM_BYTES:
        return frame.serialize(mask=False)
    packing = PerMessageDeflate(True, True, window_bits, window_bits, _PACKING)
    return frame.serialize(mask=False, extensions=[packing])


class SharedFrames(PatientSockets):
    """uvicorn's websocket, but for how it sends text."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.available_extensions = [_DEFLATE]

    async def send(self, message: Any) -> None:
        """Send what the application says; text in bytes that other sockets share."""
        text = message.get("text")
        if text is not None:
            await self.writable.wait()
        if text is None or self.disconnected or self.conn.state is not State.OPEN:
            await super().send(message)
        else:
            self.transport.write(framed(text, self._window_bits))

    @property
    def _window_bits(self) -> int | None:
        """Of the history that the other side keeps within a message; None: it unpacks nothing."""
        for extension in self.conn.extensions:
            if isinstance(extension, PerMessageDeflate):
                return extension.local_max_window_bits
        return None
