"""The HTTP limits do not apply to websockets."""

import asyncio
import socket
from typing import Any

import uvicorn
from websockets.asyncio.client import connect


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


async def test_a_silent_websocket_outlives_the_patience_for_headers(settings: Any) -> None:
    settings.ROLLDECK_MAX_HEADER_SECONDS = 0.2
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        echo, http="config.http_protocol:BoundedHttp", lifespan="off", log_level="warning"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with connect(f"ws://127.0.0.1:{listener.getsockname()[1]}/") as page:
            await asyncio.sleep(0.6)
            await page.send("still here")
            assert await asyncio.wait_for(page.recv(), 5) == "still here"
    finally:
        server.should_exit = True
        await serving
