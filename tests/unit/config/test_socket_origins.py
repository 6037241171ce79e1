"""Websockets require a page of the deployment's own origin."""

import pytest
from pytest_django import Settings

from web.live.websocket_protocol import is_own

SERVER = "127.0.0.1:8000"


@pytest.fixture(autouse=True)
def _server(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", "deck.example"]
    settings.ROLLDECK_PUBLIC_URL = "https://deck.example"
    settings.CSRF_TRUSTED_ORIGINS = ["https://other.example:8443", "https://*.lab.example"]


def accepts(origin: str | None, *, host: str = SERVER, scheme: str = "ws") -> bool:
    headers = [(b"host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    return is_own({"type": "websocket", "scheme": scheme, "headers": headers})


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("http://127.0.0.1:8000", SERVER, "ws"),
        ("http://[::1]:8000", "[::1]:8000", "ws"),
        ("http://localhost", "localhost:80", "ws"),
        ("https://localhost", "localhost", "wss"),
        ("https://deck.example", SERVER, "ws"),
        ("https://deck.example:443", SERVER, "ws"),
        ("https://other.example:8443", SERVER, "ws"),
        ("https://a.lab.example", SERVER, "ws"),
    ],
)
def test_pages_of_the_server_are_accepted(origin: str, host: str, scheme: str) -> None:
    assert accepts(origin, host=host, scheme=scheme)


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "",
        "http://127.0.0.1:8001",
        "http://127.0.0.1",
        "http://localhost:8000",
        "https://127.0.0.1:8000",
        "http://deck.example",
        "https://deck.example:8443",
        "https://other.example",
        "http://a.lab.example",
        "https://lab.example",
        "https://evil-lab.example",
        "http://127.0.0.1:8000@evil.example",
        "http://127.0.0.1:99999",
        "file://127.0.0.1:8000",
    ],
)
def test_pages_of_other_origins_are_refused(origin: str | None) -> None:
    assert not accepts(origin)


def test_a_foreign_host_is_refused_although_its_page_has_the_same_origin() -> None:
    assert not accepts("http://evil.example:8000", host="evil.example:8000")


def test_forwarded_headers_change_nothing() -> None:
    headers = [
        (b"host", SERVER.encode()),
        (b"origin", b"https://evil.example"),
        (b"x-forwarded-host", b"evil.example"),
        (b"x-forwarded-proto", b"https"),
    ]

    assert not is_own({"type": "websocket", "scheme": "ws", "headers": headers})


def test_with_https_set_the_request_itself_counts_as_https(settings: Settings) -> None:
    settings.SESSION_COOKIE_SECURE = True
    settings.ROLLDECK_PUBLIC_URL = "http://127.0.0.1:8000"

    assert accepts("https://deck.example", host="deck.example")
    assert not accepts("http://deck.example", host="deck.example")
