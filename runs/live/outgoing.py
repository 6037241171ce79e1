"""Keep what waits to be sent to one page, within bounds of frames and of memory."""

import asyncio
from collections.abc import Awaitable, Callable
from sys import getsizeof
from typing import Final

QUEUE_FRAMES: Final = 32
# With what the connection and the kernel keep of it, less than a megabyte for each page.
QUEUE_BYTES: Final = 640 * 1024


class Socket:
    """One connected page: a bounded queue of frames, and what it has been sent.

    `sequences` holds, for each of its topics, the number of the last frame that was queued, or
    None when a snapshot is due.
    """

    def __init__(self) -> None:
        self.frames: asyncio.Queue[str] = asyncio.Queue(maxsize=QUEUE_FRAMES)
        self.visible = True
        self.sequences: dict[str, int | None] = {}
        self.waiting_bytes = 0
        """In the queue, and on the way out of it."""

    def offer(self, frame: str) -> bool:
        """Queue `frame`; return False when the socket does not keep up.

        One that is too large by itself goes when nothing else waits: the page needs it.
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
        """Whether a snapshot is worth building for it."""
        return self.frames.qsize() < QUEUE_FRAMES // 2 and self.waiting_bytes < QUEUE_BYTES // 2
