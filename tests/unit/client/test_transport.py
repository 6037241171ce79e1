"""Requests over kept connections, and the errors of broken ones."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from rolldeck.transport import PIECE_BYTES, WHOLE_BYTES, Transport, transport_for

Handler = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def served(*handlers: Handler) -> Iterator[httpx.Client]:
    """Serve one connection with each handler; yield a client of the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for handler in handlers:
                connected, _ = listener.accept()
                with connected:
                    handler(connected)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, transport=Transport(), timeout=2.0) as client:
            yield client
        thread.join(5.0)
        assert not thread.is_alive()


def request_of(connected: socket.socket) -> bytes:
    """Read a request with a Content-Length, or without a body."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connected.recv(65_536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += connected.recv(65_536)
    return head + b"\r\n\r\n" + body


def answering(*answers: bytes) -> Handler:
    def handle(connected: socket.socket) -> None:
        for answer in answers:
            request_of(connected)
            connected.sendall(answer)

    return handle


def test_requests_share_a_connection() -> None:
    with served(answering(OK, OK, OK)) as client:
        assert [client.get("/").text for _ in range(3)] == ["ok"] * 3


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]
)
def test_requests_with_empty_answers_share_a_connection(head: bytes) -> None:
    with served(answering(head, head, OK)) as client:
        assert [client.get("/").text for _ in range(3)] == ["", "", "ok"]


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    with served(answering(OK), answering(OK)) as client:
        assert [client.get("/").text for _ in range(2)] == ["ok"] * 2


def test_a_request_is_sent_with_its_headers_and_body() -> None:
    seen: list[bytes] = []

    def handle(connected: socket.socket) -> None:
        seen.append(request_of(connected))
        connected.sendall(OK)

    with served(handle) as client:
        client.post("/a?b=c", content=b"x" * 300_000, headers={"X-Kind": "words"})

    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /a?b=c HTTP/1.1\r\n")
    assert b"x-kind: words" in head.lower()
    assert head.lower().count(b"host:") == 1
    assert body == b"x" * 300_000


def test_a_chunked_and_a_compressed_answer_are_decoded() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3\r\n!!!\r\n0\r\n\r\n"
    )
    packed = bytes.fromhex("1f8b08000000000000ffcbcf060047dddc7902000000")
    length = f"Content-Length: {len(packed)}\r\n\r\n".encode()
    gzip = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" + length + packed
    with served(answering(chunked, gzip)) as client:
        assert client.get("/").text == "ok!!!"
        assert client.get("/").text == "ok"


def test_an_early_refusal_is_read_although_the_body_was_not_sent() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def refuse(connected: socket.socket) -> None:
        connected.recv(1000)
        connected.sendall(refusal)
        connected.shutdown(socket.SHUT_WR)
        while connected.recv(65_536):
            pass

    with served(refuse) as client:
        assert client.post("/", content=b"x" * 20_000_000).status_code == 413


def test_the_pieces_before_a_break_are_received() -> None:
    length = WHOLE_BYTES + 1
    sent = b"x" * (2 * PIECE_BYTES + 3)
    broken = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode() + sent
    with served(answering(broken)) as client, client.stream("GET", "/") as answer:
        pieces = answer.iter_raw()
        assert [len(next(pieces)) for _ in range(3)] == [PIECE_BYTES, PIECE_BYTES, 3]
        with pytest.raises(httpx.RemoteProtocolError, match="IncompleteRead"):
            next(pieces)


def test_the_bytes_of_a_short_body_before_a_break_are_received() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
    with served(answering(broken)) as client, client.stream("GET", "/") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"abc"
        with pytest.raises(httpx.RemoteProtocolError, match="6 more expected"):
            next(pieces)


def test_a_body_that_ends_early_is_an_error() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
    with (
        served(answering(broken)) as client,
        pytest.raises(httpx.RemoteProtocolError, match="6 more expected"),
    ):
        client.get("/")


def test_an_answer_that_is_left_closes_its_connection() -> None:
    unread = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789"
    with served(answering(unread), answering(OK)) as client:
        with client.stream("GET", "/"):
            pass
        assert client.get("/").text == "ok"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx.RemoteProtocolError),
        (b"nonsense\r\n\r\n", httpx.RemoteProtocolError),
    ],
)
def test_an_answer_that_is_not_http_is_a_protocol_error(
    answer: bytes, error: type[Exception]
) -> None:
    with served(answering(answer)) as client, pytest.raises(error):
        client.get("/")


def test_silence_is_a_timeout() -> None:
    def hold(connected: socket.socket) -> None:
        request_of(connected)
        assert connected.recv(1) == b"", "the client has closed the connection"

    with served(hold) as client, pytest.raises(httpx.ReadTimeout):
        client.get("/", timeout=0.1)


def test_a_refused_connection_is_a_connect_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with (
        httpx.Client(base_url=url, transport=Transport()) as client,
        pytest.raises(httpx.ConnectError),
    ):
        client.get("/")


def test_proxies_of_the_environment_are_left_to_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert isinstance(transport_for("http://server:8000"), Transport)

    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    assert transport_for("http://server:8000") is None
    assert isinstance(transport_for("http://127.0.0.1:8000"), Transport)
    assert isinstance(transport_for("https://server"), Transport)
