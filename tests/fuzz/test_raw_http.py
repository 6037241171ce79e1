"""Malformed HTTP that libraries never send: rejected or disconnected in time, without harm.

Each case is one connection to the real server. The client then waits for the response, falls
silent, or disconnects.
"""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from tests.buffer_factories import body, group
from tests.fuzz.conftest import Platform
from tests.fuzz.observed_effects import rows

pytestmark = [pytest.mark.django_db, pytest.mark.full("sends thousands of generated requests")]

PUSH: Final = body(group())
LENGTH: Final = b"Content-Length: %d\r\n" % len(PUSH)
HOST: Final = b"Host: localhost\r\n"
# The server's timeout in these tests is one second, and five between requests.
SECONDS: Final = 8.0


def post(
    *headers: bytes, content: bytes = b"", line: bytes = b"POST /scored_data HTTP/1.1"
) -> bytes:
    return (
        line + b"\r\n" + HOST + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + content
    )


def get(line: bytes, *headers: bytes) -> bytes:
    return post(*headers, line=line)


LENGTH_OF_PUSH: Final = LENGTH.strip()
CHUNKED: Final = b"Transfer-Encoding: chunked"
UPGRADE: Final = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13")

# Bytes → permitted statuses; an empty response (disconnected) is always permitted.
ANSWERED: Final[dict[str, tuple[bytes, set[int]]]] = {
    "no HTTP": (b"hello there\r\n\r\n", {400}),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), {400}),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 404, 405}),
    "an unknown method": (get(b"BREW /scored_data HTTP/1.1"), {400, 405}),
    "a method in small letters": (get(b"post /scored_data HTTP/1.1"), {400, 405}),
    "no path": (get(b"GET  HTTP/1.1"), {400}),
    "no version": (get(b"GET /status"), {200, 400, 401}),
    "a version from the future": (get(b"GET /status HTTP/9.9"), {400, 505}),
    "a path without a slash": (get(b"GET status HTTP/1.1"), {400, 404}),
    "a path of 100 kB": (get(b"GET /" + b"a" * 100_000 + b" HTTP/1.1"), {431}),
    "an overlong name of a run": (
        get(b"GET /api/v1/runs/" + b"a" * 9000 + b" HTTP/1.1"),
        {401, 404},
    ),
    "broken percent signs": (get(b"GET /atropos/%zz%/status HTTP/1.1"), {400, 404}),
    "overlong UTF-8 in the path": (get(b"GET /atropos/%c0%af/status HTTP/1.1"), {400, 404}),
    "no UTF-8 in the path": (get(b"GET /atropos/%ff%fe/status HTTP/1.1"), {400, 404}),
    "raw bytes in the path": (get(b"GET /atropos/\xff\xfe/status HTTP/1.1"), {400, 404}),
    "NUL in the path": (get(b"GET /atropos/%00/status HTTP/1.1"), {400, 404}),
    "NUL in the query": (get(b"GET /status-env?env_id=%00 HTTP/1.1"), {400, 422}),
    "a raw NUL": (get(b"GET /sta\x00tus HTTP/1.1"), {400}),
    "a way out of the folder": (get(b"GET /static/../../../etc/passwd HTTP/1.1"), {400, 404}),
    "an absolute address": (get(b"GET http://localhost/status HTTP/1.1"), {200, 400, 404}),
    "the address of another": (get(b"GET http://evil.example/status HTTP/1.1"), {200, 400, 404}),
    "a star": (get(b"OPTIONS * HTTP/1.1"), {200, 400, 404, 405}),
    "a tunnel": (get(b"CONNECT example.org:443 HTTP/1.1"), {400, 404, 405}),
    # HTTP/1.0, as sent by nginx to backends: open mode then needs credentials.
    "an old version": (get(b"GET /status HTTP/1.0"), {401}),
    "another host": (b"GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n", {400}),
    "no host": (b"GET /status HTTP/1.1\r\n\r\n", {200, 400}),
    "two hosts": (get(b"GET /status HTTP/1.1", b"Host: evil.example"), {200, 400}),
    "a host that is none": (b"GET /status HTTP/1.1\r\nHost: \xff]:[\r\n\r\n", {400}),
    "a header without a colon": (get(b"GET /status HTTP/1.1", b"nothing"), {400}),
    "a header without a name": (get(b"GET /status HTTP/1.1", b": nothing"), {400}),
    "a space before the colon": (get(b"GET /status HTTP/1.1", b"Host : a"), {400}),
    "a folded header": (get(b"GET /status HTTP/1.1", b"A: b\r\n c"), {200, 400}),
    "NUL in a header": (get(b"GET /status HTTP/1.1", b"A: \x00"), {200, 400}),
    "a lone line feed": (b"GET /status HTTP/1.1\nHost: localhost\n\n", {200, 400}),
    "100 kB of one header": (get(b"GET /status HTTP/1.1", b"A: " + b"a" * 100_000), {431}),
    "20,000 headers": (get(b"GET /status HTTP/1.1", *[b"A: b"] * 20_000), {431}),
    "a token of 50 kB": (
        get(b"GET /api/v1/runs HTTP/1.1", b"Authorization: Bearer " + b"a" * 50_000),
        {401},
    ),
    "no base64": (get(b"GET /api/v1/runs HTTP/1.1", b"Authorization: Basic \xff==="), {401}),
    "two lengths": (post(b"Content-Length: 3", b"Content-Length: 4", content=b"1234"), {400}),
    "a list of lengths": (post(b"Content-Length: 3, 3", content=b"123"), {400}),
    "a negative length": (post(b"Content-Length: -1"), {400}),
    "a length in words": (post(b"Content-Length: ten", content=b"0123456789"), {400}),
    "a length of 40 digits": (post(b"Content-Length: " + b"9" * 40), {400, 413}),
    "a length over the limit": (post(b"Content-Length: 99999999999"), {413}),
    "length and chunks": (post(LENGTH_OF_PUSH, CHUNKED, content=b"0\r\n\r\n"), {400}),
    "chunks under another name": (post(b"Transfer-Encoding: xchunked", content=PUSH), {400}),
    "gzip as transfer": (post(b"Transfer-Encoding: gzip", content=PUSH), {400, 501}),
    "chunks, and then more": (post(b"Transfer-Encoding: chunked, gzip", content=PUSH), {400, 501}),
    "a chunk size in words": (post(CHUNKED, content=b"ten\r\n0123456789\r\n0\r\n\r\n"), {400}),
    "a negative chunk": (post(CHUNKED, content=b"-1\r\n\r\n0\r\n\r\n"), {400}),
    "a chunk of 2⁷² bytes": (post(CHUNKED, content=b"f" * 18 + b"\r\nab"), {400, 413}),
    "a chunk longer than it says": (post(CHUNKED, content=b"2\r\nabcdef\r\n0\r\n\r\n"), {400}),
    "an expectation": (post(b"Content-Length: 99999999999", b"Expect: 100-continue"), {413}),
    "a strange expectation": (
        post(b"Expect: miracles", b"Content-Length: 2", content=b"{}"),
        {417, 422},
    ),
    "a half websocket": (get(b"GET /ws/ HTTP/1.1", *UPGRADE), {400, 403, 404, 426}),
    "a websocket at a route": (
        get(b"GET /status HTTP/1.1", *UPGRADE, b"Sec-WebSocket-Key: x"),
        {400, 403, 404},
    ),
    "an upgrade to nothing known": (
        get(b"GET /status HTTP/1.1", b"Connection: Upgrade", b"Upgrade: h2c"),
        {200},
    ),
}

# Bytes that a client sends before it falls silent or disconnects.
UNFINISHED: Final[dict[str, bytes]] = {
    "nothing": b"",
    "half a line": b"POST /scored_da",
    "half the headers": b"POST /scored_data HTTP/1.1\r\nHost: local",
    "headers that go on": b"POST /scored_data HTTP/1.1\r\n" + b"A: b\r\n" * 100,
    "the headers": post(LENGTH_OF_PUSH),
    "half a body": post(LENGTH_OF_PUSH, content=PUSH[: len(PUSH) // 2]),
    "all but a byte": post(LENGTH_OF_PUSH, content=PUSH[:-1]),
    "half a chunk": post(CHUNKED, content=b"ff\r\n{"),
    "chunks without an end": post(CHUNKED, content=b"2\r\n{}\r\n"),
    "an expectation": post(LENGTH_OF_PUSH, b"Expect: 100-continue"),
    "half of gzip": post(b"Content-Encoding: gzip", b"Content-Length: 100", content=b"\x1f\x8b"),
}


class Reply(NamedTuple):
    """The bytes received until the response was complete or the server disconnected."""

    content: bytes
    seconds: float

    @property
    def status(self) -> int:
        last = self.content.rpartition(b"HTTP/1.1 100 Continue\r\n\r\n")[2]
        return int(last[9:12]) if last else 0


def is_whole(content: bytes) -> bool:
    head, separator, rest = content.partition(b"\r\n\r\n")
    if not separator or head.startswith(b"HTTP/1.1 100"):
        return False
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(lengths) and len(rest) >= int(lengths[0].partition(b":")[2])


def talk(platform: Platform, *pieces: bytes, pause_seconds: float = 0.0) -> Reply:
    """Send pieces, and read until the response is complete or the server disconnects."""
    began = time.monotonic()
    content = b""
    with socket.create_connection(("127.0.0.1", platform.web.port), timeout=SECONDS) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause_seconds)
            while not is_whole(content):
                piece = client.recv(65_536)
                if not piece:
                    break
                content += piece
        except ConnectionError:
            pass
    return Reply(content, time.monotonic() - began)


@pytest.mark.parametrize(("content", "statuses"), ANSWERED.values(), ids=ANSWERED)
def test_a_malformed_request_is_refused(
    platform: Platform, content: bytes, statuses: set[int]
) -> None:
    before = rows()

    reply = talk(platform, content)

    assert reply.status in {0, *statuses}, reply.content[:500]
    assert reply.seconds < SECONDS
    assert rows() == before


@pytest.fixture(scope="module")
def silent_replies(platform: Platform, django_db_blocker: Any) -> dict[str, Reply]:
    """Return the replies to unfinished requests, which all wait at the same time."""
    with django_db_blocker.unblock(), ThreadPoolExecutor(len(UNFINISHED)) as clients:
        before = rows()
        talks = clients.map(partial(talk, platform), UNFINISHED.values())
        replies = dict(zip(UNFINISHED, talks, strict=True))
        assert rows() == before
    return replies


@pytest.mark.parametrize("name", UNFINISHED)
def test_a_silent_connection_is_closed(silent_replies: dict[str, Reply], name: str) -> None:
    reply = silent_replies[name]

    assert reply.status in {0, 100, 408}, reply.content[:500]
    assert reply.seconds < SECONDS


@pytest.mark.parametrize("content", UNFINISHED.values(), ids=UNFINISHED)
def test_a_client_may_disconnect_at_any_time(platform: Platform, content: bytes) -> None:
    before = rows()
    with socket.create_connection(("127.0.0.1", platform.web.port)) as client:
        client.sendall(content)

    assert talk(platform, get(b"GET /healthz/live HTTP/1.1")).status == 200
    assert rows() == before


def test_a_body_sent_byte_by_byte_is_accepted(platform: Platform) -> None:
    before = rows()["buffer_trajectorygroup"]
    pieces = [PUSH[at : at + 1] for at in range(len(PUSH))]

    reply = talk(platform, post(LENGTH_OF_PUSH), *pieces, pause_seconds=0.002)

    assert reply.status == 200, reply.content
    assert rows()["buffer_trajectorygroup"] == before + 1


def test_a_slow_body_is_cut(platform: Platform) -> None:
    before = rows()
    pieces = [PUSH[at : at + 1] for at in range(70)]

    reply = talk(platform, post(LENGTH_OF_PUSH), *pieces, pause_seconds=0.1)

    assert reply.status in {0, 408}
    assert reply.seconds < 6, "the server waited for all of it"
    assert rows() == before


def test_headers_sent_byte_by_byte_have_a_deadline(platform: Platform) -> None:
    pieces = [b"G", *[b"E"] * 50]

    reply = talk(platform, b"GET / HTTP/1.1\r\n", *pieces, pause_seconds=0.05)

    assert reply.status in {0, 408}
    assert reply.seconds < SECONDS


def test_blank_lines_keep_no_connection_open(platform: Platform) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", platform.web.port), timeout=SECONDS) as client:
        client.sendall(get(b"GET /info HTTP/1.1"))
        answer = b""
        while not is_whole(answer):
            answer += client.recv(65_536)
        client.sendall(b"\r\n")
        while client.recv(65_536):
            pass

    assert time.monotonic() - began < SECONDS


def test_pipelined_requests_are_answered_in_order(platform: Platform) -> None:
    one, other = get(b"GET /info HTTP/1.1"), get(b"GET /status HTTP/1.1", b"Connection: close")

    content = b""
    with socket.create_connection(("127.0.0.1", platform.web.port), timeout=SECONDS) as client:
        client.sendall(one + other)
        while piece := client.recv(65_536):
            content += piece

    assert content.count(b"HTTP/1.1 200") == 2
    assert content.index(b"max_token_len") < content.index(b"queue_size")


def test_a_request_inside_a_body_is_not_executed(platform: Platform) -> None:
    """Request smuggling: the body of one request must not become another request."""
    before = rows()
    hidden = post(LENGTH_OF_PUSH, content=PUSH)

    reply = talk(platform, post(b"Content-Length: %d" % len(hidden), content=hidden))

    assert reply.status == 422
    assert rows() == before


@pytest.mark.last("it reads the effects of all requests")
def test_the_server_is_live_without_tracebacks(platform: Platform) -> None:
    assert platform.web.is_live()
    assert "Traceback" not in platform.web.log(), platform.web.log()[-20_000:]
