"""Pages over real sockets that stop reading."""

import asyncio
from base64 import b64encode
from random import Random
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from tests.stalled_pages import PING, PING_TIMEOUT, lazy, rest_of, served
from web.live.websocket_protocol import (
    KERNEL_BYTES,
    NOT_READING,
    PING_SECONDS,
    PING_TIMEOUT_SECONDS,
    BoundedWebSocket,
)

# Random data, which compression hardly shrinks.
PIECE = b64encode(Random(7).randbytes(45_000)).decode()
MEGABYTE = 1024 * 1024


class Speaker:
    """An application that sends as much as permitted, and records the outcome."""

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces
        self.sent = 0
        self.received: list[Any] = []
        self.failed: OSError | None = None
        self.ended = asyncio.Event()

    async def __call__(self, _: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            for _ in range(self._pieces):
                await send({"type": "websocket.send", "text": PIECE})
                self.sent += 1
        except OSError as error:
            self.failed = error
        while (message := await receive())["type"] != "websocket.disconnect":
            self.received.append(message)
        self.received.append(message)
        self.ended.set()


class Hasty(BoundedWebSocket):
    """Sockets with a shorter closing timeout."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.close_timeout = 0.3


async def test_a_client_that_does_not_read_is_disconnected_and_one_that_sends_continues() -> None:
    app = Speaker(pieces=1000)
    async with (
        asyncio.timeout(30),
        served(app, ws=BoundedWebSocket) as server,
        lazy(server) as page,
    ):
        began = asyncio.get_running_loop().time()

        await app.ended.wait()

        assert asyncio.get_running_loop().time() - began < PING + PING_TIMEOUT + 1
        assert app.failed is not None
        assert app.received[-1]["code"] == NOT_READING
        assert app.sent * len(PIECE) < MEGABYTE
        await read_to_the_end(page, app)


async def read_to_the_end(page: ClientConnection, app: Speaker) -> None:
    """Resume reading too late: all sent messages arrive, then the close frame."""
    read, code = await rest_of(page)
    assert read == [PIECE] * app.sent
    assert code == NOT_READING


async def test_the_connection_of_a_stuck_client_is_aborted() -> None:
    app = Speaker(pieces=1000)
    async with asyncio.timeout(30), served(app, ws=Hasty) as server, lazy(server) as page:
        await app.ended.wait()
        assert server.server_state.connections

        while server.server_state.connections:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.02)

        assert (await rest_of(page))[1] is None


async def test_a_client_that_reads_nothing_receives_the_reason_of_the_close() -> None:
    app = Speaker(pieces=2)
    async with asyncio.timeout(30), served(app) as server, lazy(server) as page:
        await app.ended.wait()
        assert app.failed is None
        await read_to_the_end(page, app)


async def test_a_reading_client_stays_connected_however_much_it_receives() -> None:
    app = Speaker(pieces=300)
    async with asyncio.timeout(60), served(app) as server, lazy(server) as page:
        for _ in range(300):
            assert await page.recv() == PIECE
        with pytest.raises(TimeoutError):
            # Pings are still answered.
            await asyncio.wait_for(page.recv(), 2 * (PING + PING_TIMEOUT))
        assert not app.ended.is_set()


async def test_pings_of_a_client_that_does_not_read_are_limited() -> None:
    app = Speaker(pieces=1000)
    async with (
        asyncio.timeout(30),
        served(app, ws=BoundedWebSocket) as server,
        lazy(server) as page,
    ):
        (connection,) = server.server_state.connections
        assert isinstance(connection, BoundedWebSocket)
        before = await stuck(connection)

        for number in range(200):
            await page.ping(f"{number:0125}")
        await asyncio.sleep(0.05)

        assert connection.transport.get_write_buffer_size() < before + 1000
        await app.ended.wait()


async def stuck(connection: BoundedWebSocket) -> int:
    """Wait until the send buffer no longer changes, and return its size in bytes."""
    sizes = [0]
    while not sizes[-1] or len(sizes) < 6 or len(set(sizes[-6:])) > 1:
        await asyncio.sleep(0.01)
        sizes.append(connection.transport.get_write_buffer_size())
    assert not connection.writable.is_set()
    return sizes[-1]


def test_ping_timeout_and_kernel_buffer_are_limited() -> None:
    assert PING_SECONDS + PING_TIMEOUT_SECONDS == 30
    assert KERNEL_BYTES < MEGABYTE / 4
