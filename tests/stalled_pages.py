"""Serve websockets with short timeouts to pages that do not read."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from web.live.websocket_protocol import BoundedWebSocket

PING = 0.2
PING_TIMEOUT = 0.4


@asynccontextmanager
async def served(
    app: Any, *, ws: Any = BoundedWebSocket, ping: float = PING, ping_timeout: float = PING_TIMEOUT
) -> AsyncIterator[uvicorn.Server]:
    """Serve an application like the real server, except for the timeouts."""
    config = uvicorn.Config(
        app,
        port=0,
        lifespan="off",
        log_level="error",
        ws=ws,
        ws_ping_interval=ping,
        ws_ping_timeout=ping_timeout,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    async with asyncio.timeout(30):
        while not server.started:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def lazy(
    server: uvicorn.Server, path: str = "/", headers: list[tuple[bytes, bytes]] | None = None
) -> AsyncIterator[ClientConnection]:
    """Open a page that reads one message ahead, and nothing more until it is taken."""
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (host, port))
    page = await connect(
        f"ws://{host}:{port}{path}",
        origin=Origin(f"http://{host}:{port}"),
        sock=narrow,
        max_queue=1,
        max_size=None,
        ping_interval=None,
        additional_headers=[(name.decode(), value.decode()) for name, value in headers or []],
    )
    try:
        yield page
    finally:
        page.transport.abort()
        while server.server_state.connections:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.01)


async def rest_of(page: ClientConnection) -> tuple[list[str], int | None]:
    """Read to the end; return the messages, and the code of the close frame if there is one."""
    messages: list[str] = []
    try:
        while True:
            messages.append(str(await page.recv()))
    except ConnectionClosed as closed:
        return messages, closed.rcvd.code if closed.rcvd else None
