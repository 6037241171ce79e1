"""Large bodies reach the application whole, and leave their connection usable."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from config import http_protocol
from config.http_protocol import MAX_BYTES, MIN_BYTES, buffered_length
from tests.live_server import QuickServer

BODY = bytes(range(256)) * 8192  # 2 MB: several reads of a socket


class Application:
    """An ASGI application that keeps the bodies it received, as lists of pieces."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self.bodies: list[list[bytes]] = []
        self.received = asyncio.Event()
        self.disconnected = asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        pieces: list[bytes] = []
        self.bodies.append(pieces)
        while self.reads:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected.set()
                return
            pieces.append(message["body"])
            self.received.set()
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


@asynccontextmanager
async def connected(
    application: Application,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve an application, and yield a connection to it."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, http="config.http_protocol:BoundedHttp", lifespan="off", log_level="warning"
    )
    server = QuickServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        server.should_exit = True
        await serving


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def answered(reader: asyncio.StreamReader, path: str) -> None:
    answer = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 10)
    assert answer.startswith(b"HTTP/1.1 200")
    assert path.encode() in answer


async def test_a_large_body_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "PROGRESS_SECONDS", 60)
    application = Application()
    async with connected(application) as (reader, writer):
        writer.write(post("/one", BODY))
        await answered(reader, "/one")

    assert application.bodies == [[BODY]]


async def test_requests_follow_on_the_same_connection() -> None:
    application = Application()
    small = b"x" * (MIN_BYTES - 1)
    async with connected(application) as (reader, writer):
        # The last two arrive before the response to the first.
        writer.write(post("/one", BODY) + post("/two", small) + post("/three", BODY))
        for path in ("/one", "/two", "/three"):
            await answered(reader, path)
        writer.write(post("/four", BODY))
        await answered(reader, "/four")

    assert [b"".join(pieces) for pieces in application.bodies] == [BODY, small, BODY, BODY]


async def test_the_bytes_of_a_slow_body_are_delivered_as_they_arrive() -> None:
    application = Application()
    async with connected(application) as (reader, writer):
        request = post("/slow", BODY)
        for part in (request[:100_000], request[100_000:200_000]):
            writer.write(part)
            await asyncio.wait_for(application.received.wait(), 10)
            application.received.clear()
        writer.write(request[200_000:])
        await answered(reader, "/slow")

    (pieces,) = application.bodies
    assert len(pieces) > 1
    assert b"".join(pieces) == BODY


async def test_a_client_that_leaves_in_mid_body_is_a_disconnect() -> None:
    application = Application()
    async with connected(application) as (_, writer):
        writer.write(post("/left", BODY)[:-1])
        await writer.drain()
        writer.close()
        await asyncio.wait_for(application.disconnected.wait(), 10)


async def test_the_rest_of_a_body_is_discarded_after_an_early_response() -> None:
    application = Application(reads=False)
    async with connected(application) as (reader, writer):
        request = post("/early", BODY)
        writer.write(request[:100_000])
        await answered(reader, "/early")
        writer.write(request[100_000:])
        application.reads = True
        writer.write(post("/next", BODY))
        await answered(reader, "/next")

    assert [b"".join(pieces) for pieces in application.bodies] == [b"", BODY]


async def test_a_client_that_waits_for_100_continue_gets_it() -> None:
    application = Application()
    async with connected(application) as (reader, writer):
        request = post("/waits", BODY, "Expect: 100-continue")
        writer.write(request[: -len(BODY)])
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(BODY)
        await answered(reader, "/waits")

    assert [b"".join(pieces) for pieces in application.bodies] == [BODY]


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ([(b"content-length", b"%d" % MIN_BYTES)], MIN_BYTES),
        ([(b"content-length", b"%d" % MAX_BYTES)], MAX_BYTES),
        ([(b"content-length", b"%d" % (MIN_BYTES - 1))], 0),
        ([(b"content-length", b"%d" % (MAX_BYTES + 1))], 0),
        ([(b"content-length", b"-70000")], 0),
        ([(b"content-length", b"70000"), (b"upgrade", b"websocket")], 0),
        ([(b"transfer-encoding", b"chunked")], 0),
        ([], 0),
    ],
)
def test_only_large_bodies_of_known_length_are_buffered(
    headers: list[tuple[bytes, bytes]], length: int
) -> None:
    assert buffered_length(headers) == length
