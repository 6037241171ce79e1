"""Write large responses in few calls, and without holding Python's lock.

uvloop calls the kernel with the GIL held, and copying a megabyte takes the kernel a while. Other
threads wait for the lock that long, for example a poll with its five queries.
:func:`os.writev` releases the lock during the call, and writes the parts of a response together.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Final

LARGE_BYTES: Final = 64 * 1024
Data = bytes | bytearray | memoryview


class Parts:
    """Parts of a body that are sent in one ASGI message without joining them.

    It has a length like bytes; `bytes(parts)` joins them, for middleware that changes the body.
    """

    def __init__(self, parts: Sequence[bytes | memoryview]) -> None:
        """Keep the parts; a write takes at most 1,024 (the kernel's limit)."""
        self.parts = parts
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


class LargeWrites:
    """A transport that writes large pieces directly, as far as the kernel accepts them.

    The rest and all small pieces go through the event loop as usual. While its buffer is not
    empty, all pieces go there, which keeps them in order.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.plain = transport
        connected = transport.get_extra_info("socket")
        self._is_plain = connected is not None and not transport.get_extra_info("sslcontext")
        self._file = connected.fileno() if connected is not None else -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def write(self, data: Data | Parts) -> None:
        """Send the data after everything that was written before."""
        is_large = len(data) >= LARGE_BYTES and self._may_write()
        parts: Sequence[Data] = data.parts if isinstance(data, Parts) else (data,)
        for part in self._left_of(parts) if is_large else parts:
            if part:
                self.plain.write(part)

    def _may_write(self) -> bool:
        # After a close, another connection may have the same file descriptor.
        is_open = self._is_plain and not self.plain.is_closing()
        return is_open and self.plain.get_write_buffer_size() == 0

    def _left_of(self, parts: Sequence[Data]) -> Sequence[Data]:
        """Write what the kernel accepts, and return the rest."""
        try:
            written = os.writev(self._file, parts)
        except OSError:  # full or broken: the event loop handles both
            return parts
        for place, part in enumerate(parts):
            if written < len(part):
                return [memoryview(part)[written:], *parts[place + 1 :]]
            written -= len(part)
        return ()
