"""Serve the platform with a transport that delays responses to pushes while a file exists.

Each response that starts to wait appends a byte to the file.
Run as ``python -m tests.delayed_answers FD FILE``.
"""

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn


def wait_until_gone(file: Path, *, is_first: bool) -> None:
    if is_first and file.exists():
        with file.open("ab") as waiting:
            waiting.write(b".")
    while file.exists():
        time.sleep(0.005)


def holding(app: Any, held_while: Path) -> Any:
    async def transport(scope: Any, receive: Any, send: Any) -> None:
        async def slow(message: Any) -> None:
            if scope["path"].endswith("/scored_data"):
                await asyncio.to_thread(
                    wait_until_gone, held_while, is_first=message["type"] == "http.response.start"
                )
            await send(message)

        await app(scope, receive, slow)

    return transport


if __name__ == "__main__":
    from config.asgi import application

    listener = socket.socket(fileno=int(sys.argv[1]))
    config = uvicorn.Config(
        holding(application, Path(sys.argv[2])),
        http="config.http_protocol:BoundedHttp",
        lifespan="off",
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[listener])
