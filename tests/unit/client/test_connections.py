"""Requests over kept connections, and the errors of broken ones."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rolldeck import __version__
from rolldeck.errors import InvalidRequestError, UnreachableError
from rolldeck.http import PIECE_BYTES, Call, Connection
from rolldeck.trainer import Trainer
from tests.unit.client.failing_server import Planned, in_turn, serving

Handler = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def served(*handlers: Handler, timeout_seconds: float = 2.0) -> Iterator[Connection]:
    """Serve one connection with each handler; yield a client that does not retry."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for handler in handlers:
                connected, _ = listener.accept()
                with connected:
                    handler(connected)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Connection(url, timeout_seconds=timeout_seconds, retry_for_seconds=0) as client:
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


def get(client: Connection, path: str = "/") -> bytes:
    return client.send(Call(method="GET", path=path)).data


def test_requests_share_a_connection() -> None:
    with served(answering(OK, OK, OK)) as client:
        assert [get(client) for _ in range(3)] == [b"ok"] * 3


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]
)
def test_requests_with_empty_answers_share_a_connection(head: bytes) -> None:
    with served(answering(head, head, OK)) as client:
        assert [get(client) for _ in range(3)] == [b"", b"", b"ok"]


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    has_closed = threading.Event()

    def answer_and_close(connected: socket.socket) -> None:
        answering(OK)(connected)
        connected.close()
        has_closed.set()

    with served(answer_and_close, answering(OK)) as client:
        assert get(client) == b"ok"
        assert has_closed.wait(5.0)
        assert get(client) == b"ok"


def test_a_request_is_sent_with_its_headers_and_body() -> None:
    seen: list[bytes] = []

    def handle(connected: socket.socket) -> None:
        seen.append(request_of(connected))
        connected.sendall(OK)

    with served(handle) as client:
        content = b"x" * 300_000
        params = {"b": "c d&\u00e9", "limit": 3}
        client.send(
            Call(method="POST", path="/a?0=1", params=params, content=content, content_type="words")
        )

    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert head.startswith(b"POST /a?0=1&b=c+d%26%C3%A9&limit=3 HTTP/1.1\r\n")
    assert {b"content-type: words", f"user-agent: rolldeck/{__version__}".encode()} <= set(lines)
    for name in ("host", "accept", "accept-encoding", "content-length", "idempotency-key"):
        assert sum(line.startswith(f"{name}:".encode()) for line in lines) == 1, name
    assert body == content


def test_a_chunked_and_a_compressed_answer_are_decoded() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3\r\n!!!\r\n0\r\n\r\n"
    )
    packed = bytes.fromhex("1f8b08000000000000ffcbcf060047dddc7902000000")
    length = f"Content-Length: {len(packed)}\r\n\r\n".encode()
    gzip = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" + length + packed
    with served(answering(chunked, gzip)) as client:
        assert [get(client), get(client)] == [b"ok!!!", b"ok"]


def test_an_early_refusal_is_read_although_the_body_was_not_sent() -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def refuse(connected: socket.socket) -> None:
        connected.recv(1000)
        connected.sendall(refusal)
        connected.shutdown(socket.SHUT_WR)
        while connected.recv(65_536):
            pass

    with served(refuse) as client, pytest.raises(InvalidRequestError) as refused:
        client.send(Call(method="POST", path="/", content=b"x" * 20_000_000))
    assert refused.value.status == 413


def test_the_bytes_before_a_break_are_received() -> None:
    sent = b"x" * (2 * PIECE_BYTES + 3)
    broken = f"HTTP/1.1 200 OK\r\nContent-Length: {1 << 30}\r\n\r\n".encode() + sent
    received: list[int] = []

    def receive(client: Connection) -> None:
        with client.opened("/", {}) as answer:
            received.extend(map(len, answer.stream(PIECE_BYTES, decode_content=False)))

    with (
        served(answering(broken)) as client,
        pytest.raises(UnreachableError, match="IncompleteRead"),
    ):
        receive(client)
    assert received == [PIECE_BYTES, PIECE_BYTES, 3]


def test_an_answer_that_is_left_closes_its_connection() -> None:
    unread = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789"
    with served(answering(unread), answering(OK)) as client:
        with client.opened("/", {}):
            pass
        assert get(client) == b"ok"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "RemoteDisconnected"),
        (b"nonsense\r\n\r\n", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "6 more expected"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", "gzip"),
    ],
)
def test_an_invalid_answer_is_an_error_that_names_the_server(answer: bytes, message: str) -> None:
    with (
        served(answering(answer)) as client,
        pytest.raises(UnreachableError, match=message) as error,
    ):
        get(client)
    assert str(error.value).startswith(f"{client.url}: ")


def test_silence_is_a_timeout() -> None:
    def hold(connected: socket.socket) -> None:
        request_of(connected)
        assert connected.recv(1) == b"", "the client has closed the connection"

    with (
        served(hold, timeout_seconds=0.1) as client,
        pytest.raises(UnreachableError, match="Read timed out"),
    ):
        get(client)


def test_a_long_poll_waits_beyond_the_timeout() -> None:
    def answer_late(connected: socket.socket) -> None:
        request_of(connected)
        time.sleep(0.3)
        connected.sendall(OK)

    with served(answer_late, timeout_seconds=0.1) as client:
        assert client.send(Call(method="GET", path="/", wait_seconds=5.0)).data == b"ok"


def test_an_ipv6_address_is_a_server() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:

        def serve() -> None:
            connected, _ = listener.accept()
            with connected:
                answering(OK)(connected)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with Connection(f"http://[::1]:{listener.getsockname()[1]}") as client:
            assert get(client) == b"ok"
        thread.join(5.0)


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_requests_use_the_proxy_of_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(in_turn(Planned(body=b"proxied"))) as proxy, serving(in_turn(Planned())) as server:
        monkeypatch.setenv(name, proxy.url.replace("http://", "http://me:s%40crt@"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with Connection("http://user:word@deck.example:8000/prefix") as client:
            assert get(client, "/x") == b"proxied"
        with Connection(server.url) as client:
            assert get(client) == b"{}"

    (request,) = proxy.seen
    assert request.path == "http://deck.example:8000/prefix/x"
    assert request.headers["Host"] == "deck.example:8000"
    assert request.headers["proxy-authorization"] == "Basic bWU6c0BjcnQ="
    assert request.headers["Authorization"] == "Basic dXNlcjp3b3Jk"


def certified(host: str) -> bytes:
    """Return a new key and a self-signed certificate of a server."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(pem, *plain) + certificate.public_bytes(pem)


@pytest.mark.usefixtures("no_proxies")
def test_the_certificate_of_a_server_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(certified("localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    with serving(in_turn(Planned(body=b"ok")), tls=context) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        with (
            Connection(url, retry_for_seconds=0) as client,
            pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            get(client)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with Connection(url) as client:
            assert get(client) == b"ok"
        with (
            Connection(url.replace("localhost", "127.0.0.1"), retry_for_seconds=0) as client,
            pytest.raises(UnreachableError, match="IP address mismatch"),
        ):
            get(client)


@pytest.mark.parametrize(
    ("environment", "given", "sent"),
    [
        pytest.param({}, ("{server}", None), None, id="nothing"),
        pytest.param({"ROLLDECK_TOKEN": "usual"}, ("{server}", None), "usual", id="a token"),
        pytest.param(
            {"ROLLDECK_URL": "{server}", "ROLLDECK_TOKEN": "usual"},
            (None, None),
            "usual",
            id="both",
        ),
        pytest.param(
            {"ROLLDECK_URL": "{server}/", "ROLLDECK_TOKEN": "usual"},
            ("{server}/atropos/demo", None),
            "usual",
            id="a path of the usual server",
        ),
        pytest.param(
            {"ROLLDECK_URL": "http://rolldeck.example", "ROLLDECK_TOKEN": "usual"},
            ("{server}", None),
            None,
            id="another server",
        ),
        pytest.param(
            {"ROLLDECK_URL": "http://rolldeck.example"}, ("{server}", None), None, id="url"
        ),
        pytest.param(
            {"ROLLDECK_URL": "http://rolldeck.example", "ROLLDECK_TOKEN": "usual"},
            ("{server}", "own"),
            "own",
            id="another server and its token",
        ),
        pytest.param({"ROLLDECK_TOKEN": "usual"}, ("{server}", "own"), "own", id="an own token"),
    ],
)
def test_url_and_token_of_the_environment_are_defaults(
    environment: dict[str, str],
    given: tuple[str | None, str | None],
    sent: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ROLLDECK_URL", "ROLLDECK_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with serving(in_turn(Planned(200, b"{}"))) as server:
        for name, value in environment.items():
            monkeypatch.setenv(name, value.format(server=server.url))
        url, token = given
        with Connection(url and url.format(server=server.url), token) as connection:
            connection.json(Call(method="GET", path="/x"))

    header = server.seen[0].headers.get("Authorization")
    assert header == (None if sent is None else f"Bearer {sent}")


def test_a_token_that_is_not_sent_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ROLLDECK_URL", "http://rolldeck.example:80")
    monkeypatch.setenv("ROLLDECK_TOKEN", "usual")

    Connection("http://ROLLDECK.example/atropos/demo").close()
    assert caplog.messages == []
    Connection("http://other.example").close()
    [message] = caplog.messages
    assert "not sent to http://other.example" in message
    assert "ROLLDECK_URL is http://rolldeck.example:80" in message


def test_an_invalid_url_of_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLDECK_URL", "http://[rolldeck")
    monkeypatch.setenv("ROLLDECK_TOKEN", "usual")

    with pytest.raises(InvalidRequestError, match="is not a valid server URL"):
        Connection("http://other.example")


def test_a_client_without_a_run_is_an_error() -> None:
    with pytest.raises(InvalidRequestError, match="give the name of a run"):
        Trainer("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("server", "older", "remedy"),
    [
        ("0.2.0", "client", "rolldeck==0.2.0"),
        ("0.10", "client", "rolldeck==0.10"),
        ("0.0.9", "server", f"rolldeck-server=={__version__}"),
        (__version__, "", ""),
    ],
)
def test_another_version_of_the_server_is_reported_once(
    caplog: pytest.LogCaptureFixture, server: str, older: str, remedy: str
) -> None:
    answer = OK.replace(b"\r\n\r\n", f"\r\nRolldeck-Version: {server}\r\n\r\n".encode())

    with served(answering(answer, answer)) as client:
        get(client)
        get(client)
        url = client.url

    found = [record.getMessage() for record in caplog.records if record.name == "rolldeck"]
    versions = f"client {__version__}, server {server}: the {older} is older"
    assert found == ([f"{url}: {versions}; pip install '{remedy}'"] if older else [])
