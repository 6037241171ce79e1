"""Write large pieces while other threads run.

uvloop calls the kernel with Python's lock held, and the kernel takes its time to copy a megabyte:
whoever waits for the lock in another thread, a poll with its five statements, waits for a part
of a large batch each time. :func:`os.write` gives the lock back meanwhile.
"""

import asyncio
import os
from typing import Any, Final

LARGE_BYTES: Final = 64 * 1024
Data = bytes | bytearray | memoryview


class LargeWrites:
    """A transport that writes large pieces itself, as far as the kernel takes them at once.

    What the kernel does not take, and everything small, goes through the event loop as ever; so
    do all pieces while something is still under way there, which keeps them in order.
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
        # The file of a closed connection may be another connection's by now.
        is_open = self._is_plain and not self.plain.is_closing()
        return is_open and self.plain.get_write_buffer_size() == 0

    def _left_of(self, data: Data) -> Data:
        try:
            written = os.write(self._file, data)
        except OSError:  # full, or broken: the event loop finds out which
            return data
        return memoryview(data)[written:]
