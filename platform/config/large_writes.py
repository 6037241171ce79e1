"""Write large responses without holding Python's lock.

uvloop calls the kernel with the GIL held, and copying a megabyte takes the kernel a while. Other
threads wait for the lock that long, for example a poll with its five queries.
:func:`os.write` releases the lock during the call.
"""

import asyncio
import os
from typing import Any, Final

LARGE_BYTES: Final = 64 * 1024
Data = bytes | bytearray | memoryview


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

    def write(self, data: Data) -> None:
        """Send the data after everything that was written before."""
        if len(data) >= LARGE_BYTES and self._may_write():
            data = self._left_of(data)
        if data:
            self.plain.write(data)

    def _may_write(self) -> bool:
        # After a close, another connection may have the same file descriptor.
        is_open = self._is_plain and not self.plain.is_closing()
        return is_open and self.plain.get_write_buffer_size() == 0

    def _left_of(self, data: Data) -> Data:
        try:
            written = os.write(self._file, data)
        except OSError:  # full or broken: the event loop handles both
            return data
        return memoryview(data)[written:]
