"""Live pages: websockets that watch a run, in a separate process."""

import asyncio
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

LAST: Final = "change-last"
LONGEST_SECONDS: Final = 180.0
OPENING_AT_ONCE: Final = 20
_JOINED: Final = re.compile(r"environment (change-\w+?)_0 registered")

Changes = list[tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The run to watch.

    Attributes:
        url: URL of the server, over HTTP.
        token: Bearer token with read access to the run.
        run: Name of the run.
        sockets: Number of pages.
        ready: File that is created once each page has its snapshot.
    """

    url: str
    token: str
    run: str
    sockets: int
    ready: str


def watch(request: Watch) -> Changes:
    """Return the monotonic time at which each page received each registered environment.

    Ends when all pages have received :data:`LAST`.
    """
    return asyncio.run(_watch_all(request))


async def _watch_all(request: Watch) -> Changes:
    opening = asyncio.Semaphore(OPENING_AT_ONCE)
    waiting = request.sockets
    seen: Changes = []

    def opened() -> None:
        nonlocal waiting
        waiting -= 1
        if waiting == 0:
            Path(request.ready).touch()

    async def page() -> None:
        async with opening:
            socket = await _opened(request)
            await socket.recv()  # its snapshot
            opened()
        seen.extend(await _heard(socket))
        await socket.close()

    async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as pages:
        for _ in range(request.sockets):
            pages.create_task(page())
    return seen


async def _opened(request: Watch) -> ClientConnection:
    address = request.url.replace("http", "ws", 1) + "/ws/live"
    headers = {"Authorization": f"Bearer {request.token}"}
    socket = await connect(
        address,
        origin=Origin(request.url),  # pages of other sites are rejected
        additional_headers=headers,
        max_size=None,
    )
    await socket.send(f'{{"type": "subscribe", "topic": "run:{request.run}"}}')
    return socket


async def _heard(socket: ClientConnection) -> Changes:
    """Return the first time of each change, until the last one arrives."""
    first: dict[str, float] = {}
    async for frame in socket:
        now = time.monotonic()
        for name in _JOINED.findall(frame if isinstance(frame, str) else frame.decode()):
            first.setdefault(name, now)
        if LAST in first:
            break
    return list(first.items())
