"""Limits on request lines and headers, which do not apply to websockets."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect

from tests.live_server import QuickServer


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Accept a websocket and echo its messages."""
    assert scope["type"] == "websocket"
    while True:
        message = await receive()
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        elif message["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            return


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """Serve `echo` and yield its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        echo, http="config.http_protocol:BoundedHttp", lifespan="off", log_level="warning"
    )
    server = QuickServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


async def answer_to(port: int, sent: bytes) -> bytes:
    """Send bytes on a new connection; return all that the server answers before it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


async def test_a_silent_websocket_outlasts_the_header_timeout(settings: Any) -> None:
    settings.ROLLDECK_MAX_HEADER_SECONDS = 0.2
    async with served() as port, connect(f"ws://127.0.0.1:{port}/") as page:
        assert b"max_header_seconds" in await answer_to(port, b"GET / HT")  # the timeout is over
        await page.send("still here")
        assert await asyncio.wait_for(page.recv(), 5) == "still here"


@pytest.mark.parametrize(
    ("sent", "status", "code", "detail"),
    [
        (b"GET / HT", 408, "too_slow", "0.2 seconds (max_header_seconds)"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 2000, 431, "headers_too_large", "(max_header_bytes)"),
    ],
    ids=["slow", "large"],
)
async def test_refused_headers_are_answered_with_a_problem(
    settings: Any, sent: bytes, status: int, code: str, detail: str
) -> None:
    settings.ROLLDECK_MAX_HEADER_SECONDS = 0.2
    settings.ROLLDECK_MAX_HEADER_BYTES = 1024
    async with served() as port:
        head, _, body = (await answer_to(port, sent)).partition(b"\r\n\r\n")

    problem = json.loads(body)
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Content-Type: application/problem+json" in head
    assert (problem["status"], problem["code"]) == (status, code)
    assert detail in problem["detail"]
