"""Limits on request lines, headers and trailers, which do not apply to websockets."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect

from tests.live_server import QuickServer

EXPECTED = ("unknown_expectation", "only 100-continue")


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Echo the messages of a websocket, or the header names and the body of a request."""
    if scope["type"] == "http":
        body, message = b"", {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        content = b", ".join([*(name for name, _ in scope["headers"]), body])
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        return
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
        (b"GET / HTTP/1.1\r\n\r\n", 400, "invalid_head", "Host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "invalid_head", "exactly one"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", 417, *EXPECTED),
        (b"GET / HTTP/1.0\r\nExpect: " + b"a" * 999 + b"\r\n\r\n", 417, *EXPECTED),
    ],
    ids=["slow", "large", "no host", "two hosts", "expectation", "long expectation"],
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


CHUNKED = (
    b"POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
)
HEADERS_AND_BODY = b"host, connection, transfer-encoding, {}"


@pytest.mark.parametrize(
    ("trailers", "status"),
    [
        (b"Digest: sha-256=abc\r\n", 200),
        (b"Authorization: Bearer stolen\r\n", 200),
        (b"Host: elsewhere\r\n", 200),
        (b"Content-Encoding: gzip\r\n", 200),
        (b"Content-Length: 5\r\n", 400),
        (b"Idempotency-Key: 1\r\n", 200),
        (b"Transfer-Encoding: identity\r\n", 400),
        (b"Expect: 100-continue\r\n", 200),
        (b"X-Forwarded-For: 127.0.0.1\r\n", 200),
        (b"a: " + b"b" * 900 + b"\r\n", 200),
        (b"a: " + b"b" * 1100 + b"\r\n", 431),
        (b"a:b\r\n" * 300, 431),
        (b"a:b\r\n" * 200_000, 431),
        (b"a: " + b"b" * 1_000_000, 431),
        (b"c" * 1_000_000, 431),
    ],
    ids=lambda value: f"{value[:24]!r} x {len(value)}" if isinstance(value, bytes) else value,
)
@pytest.mark.parametrize("piece_bytes", [7, 100_000_000])
async def test_trailers_are_limited_and_never_become_headers(
    settings: Any, trailers: bytes, status: int, piece_bytes: int
) -> None:
    settings.ROLLDECK_MAX_HEADER_BYTES = 1024
    async with served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CHUNKED)
        sent = trailers + b"\r\n\r\n"[trailers.endswith(b"\n") * 2 :]
        for start in range(0, min(len(sent), 300 * piece_bytes), piece_bytes):
            writer.write(sent[start : start + piece_bytes])
            await asyncio.sleep(0)
        answer = b""
        with suppress(ConnectionResetError):  # the server closes while the rest is being sent
            answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    head, _, body = answer.partition(b"\r\n\r\n")
    # Bytes that arrive after the close reset the connection, and the answer may be lost.
    if answer or status == 200 or len(trailers) < min(3000, piece_bytes):
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
    if status == 200:
        assert body == HEADERS_AND_BODY
    if answer and status == 431:
        assert "trailers are larger than 1024 bytes" in json.loads(body)["detail"]


async def test_trailers_of_an_answered_request_only_close_its_connection(settings: Any) -> None:
    settings.ROLLDECK_MAX_HEADER_BYTES = 1024
    ping = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
    async with served() as port:
        # A pipelined request's response is not overtaken by a refusal.
        answers = await answer_to(port, ping + CHUNKED + b"a:b\r\n" * 1000)
    assert answers.count(b"HTTP/1.1 431") <= 1
    assert not answers.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nConnection: close\r\n\r\n",
    ],
)
async def test_unusual_heads_are_accepted(sent: bytes) -> None:
    async with served() as port:
        assert b"HTTP/1.1 200 " in await answer_to(port, sent)


async def test_trailers_leave_the_connection_usable() -> None:
    kept = CHUNKED.replace(b"Connection: close\r\n", b"")
    async with served() as port:
        answers = await answer_to(port, kept + b"Host: elsewhere\r\n\r\n" + CHUNKED + b"\r\n")
    assert answers.count(b"HTTP/1.1 200") == 2
    assert answers.count(b"host, transfer-encoding, {}") == 1


async def test_endless_trailers_close_the_connection() -> None:
    async with served() as port:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CHUNKED)
        sent = 0
        with suppress(ConnectionError):
            while sent < 256 << 20:
                writer.write(b"a:b\r\n" * 20_000)
                sent += 100_000
                await asyncio.wait_for(writer.drain(), 10)
        writer.close()
    # The server's limit, and what the buffers of both sockets take.
    assert sent < 32 << 20
