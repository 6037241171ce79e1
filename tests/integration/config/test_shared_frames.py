"""Messages over real sockets, with and without compression."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

from tests.stalled_pages import served
from web.live.websocket_protocol import (
    COMPRESSED_FROM_BYTES,
    PING_SECONDS,
    PING_TIMEOUT_SECONDS,
    framed,
)

LONG = json.dumps([{"größe": number} for number in range(20_000)], ensure_ascii=False)
MESSAGES = ["", "short", "ü" * (COMPRESSED_FROM_BYTES // 2), "x" * 126, LONG, "the end"]
OFFERS: list[dict[str, Any]] = [
    {"compression": None},
    {"compression": "deflate"},
    {"extensions": [ClientPerMessageDeflateFactory(server_max_window_bits=9)]},
    {"extensions": [ClientPerMessageDeflateFactory(server_no_context_takeover=True)]},
]


async def send_messages(scope: Any, receive: Any, send: Any) -> None:
    """Send every message, then echo until the client disconnects."""
    await receive()
    await send({"type": "websocket.accept"})
    for text in MESSAGES:
        await send({"type": "websocket.send", "text": text})
    while (message := await receive())["type"] == "websocket.receive":
        if message["text"] == "close":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await send({"type": "websocket.send", "text": message["text"]})


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    async with served(
        send_messages, ping=PING_SECONDS, ping_timeout=PING_TIMEOUT_SECONDS
    ) as server:
        yield f"ws://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"


async def received_by(socket: ClientConnection) -> list[str]:
    return [str(await socket.recv()) for _ in MESSAGES]


async def test_every_socket_receives_the_same_with_and_without_compression() -> None:
    async with asyncio.timeout(60), serving() as url, AsyncExitStack() as open_:
        sockets = [
            await open_.enter_async_context(connect(url, max_size=None, **offer))
            for offer in OFFERS
        ]

        received = await asyncio.gather(*(received_by(socket) for socket in sockets))

        assert received == [MESSAGES] * len(OFFERS)
        assert [len(socket.protocol.extensions) for socket in sockets] == [0, 1, 1, 1]


async def test_messages_of_a_page_are_received_and_a_closed_socket_closes() -> None:
    async with asyncio.timeout(60), serving() as url, connect(url, max_size=None) as socket:
        await received_by(socket)
        for text in (LONG, "a", LONG):
            await socket.send(text)
            assert await socket.recv() == text

        await socket.send("close")

        with pytest.raises(ConnectionClosedOK):
            await socket.recv()


def test_a_message_is_encoded_once_for_all_sockets_and_long_ones_are_compressed() -> None:
    assert framed(LONG, 15) is framed(LONG, 15)
    assert len(framed(LONG, 15)) < len(LONG) / 3 < len(framed(LONG, None))
    assert framed("short", 15) == framed("short", None) == b"\x81\x05short"
