"""Buffer a request body on its way from the socket, without HTTP parser and event loop tasks.

uvicorn passes each read of at most 256 kB through the parser, pauses the socket, and wakes the
application for it, which copies the bytes five times. A body of known length needs no parser:
its pieces are kept as they were read, and joined once.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

MIN_BYTES: Final = 64 * 1024
MAX_BYTES: Final = 64 << 20
"""Lengths of bodies that are buffered. Django writes longer ones to disk as they arrive."""
PROGRESS_SECONDS: Final = 0.05
"""Delay after which the bytes of a slow body are delivered, so that its rate can be checked."""
Deliver = Callable[[bytes, bool], None]


def buffered_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the length of a body to buffer; 0 for a body that is left to the parser."""
    length = 0
    for name, value in headers:
        if name in {b"transfer-encoding", b"upgrade"}:
            return 0
        if name == b"content-length" and value.isdigit():
            length = int(value)
    return length if MIN_BYTES <= length <= MAX_BYTES else 0


class BodyBuffer:
    """The bytes of one body.

    Args:
        length: Length of the body in bytes.
        deliver: Called with bytes, and whether the body is complete.
        loop: The event loop of the connection.
    """

    def __init__(self, length: int, deliver: Deliver, loop: asyncio.AbstractEventLoop) -> None:
        self._missing_bytes = length
        self._pieces: list[bytes] = []
        self._deliver = deliver
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the whole body has arrived."""
        return not self._missing_bytes

    def add(self, received: bytes) -> bytes:
        """Keep received bytes; return those after the end of the body."""
        beyond = received[self._missing_bytes :]
        piece = received[: self._missing_bytes]
        self._pieces.append(piece)
        self._missing_bytes -= len(piece)
        if self.is_complete:
            self.close()
            self._flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(PROGRESS_SECONDS, self._flush_slow)
        return beyond

    def close(self) -> None:
        """Stop the deliveries of a slow body."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush_slow(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        self._deliver(b"".join(pieces), self.is_complete)
