"""Bounded queue of the frames to send to one page."""

import asyncio
from collections.abc import Awaitable, Callable
from sys import getsizeof
from typing import Final

QUEUE_FRAMES: Final = 32
# With the buffers of the connection and the kernel, less than a megabyte per page.
QUEUE_BYTES: Final = 640 * 1024


class Socket:
    """One connected page: a bounded queue of frames, and its last sequence numbers.

    `sequences` maps each of its topics to the number of the last queued frame, or None when a
    snapshot is due.
    """

    def __init__(self) -> None:
        self.frames: asyncio.Queue[str] = asyncio.Queue(maxsize=QUEUE_FRAMES)
        self.visible = True
        self.sequences: dict[str, int | None] = {}
        self.waiting_bytes = 0
        """Bytes queued or being sent."""

    def offer(self, frame: str) -> bool:
        """Queue a frame; return False if the queue is full.

        A frame above the limit is accepted when the queue is empty.
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
        """Whether there is room for a snapshot."""
        return self.frames.qsize() < QUEUE_FRAMES // 2 and self.waiting_bytes < QUEUE_BYTES // 2
