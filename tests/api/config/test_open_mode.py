"""Open mode accepts programs on the same machine, but nothing through a proxy."""

import asyncio
import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from tests.web_process import WebProcess, web_process

pytestmark = pytest.mark.django_db(transaction=True)

PROXY_HEADERS = {
    "Forwarded": "for=192.0.2.1",
    "Via": "1.1 proxy",
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-Host": "deck.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Port": "443",
    "X-Forwarded-Server": "proxy",
    "X-Original-Forwarded-For": "192.0.2.1",
    "X-Real-IP": "192.0.2.1",
    "X-Client-IP": "192.0.2.1",
    "X-Cluster-Client-IP": "192.0.2.1",
    "X-Envoy-External-Address": "192.0.2.1",
    "CF-Connecting-IP": "192.0.2.1",
    "True-Client-IP": "192.0.2.1",
    "CDN-Loop": "a-cdn",
    "X_Forwarded_For": "192.0.2.1",
    "X-Forwarded": "for=192.0.2.1",
    "X-Amzn-Trace-Id": "Root=1",
    "Fly-Client-IP": "192.0.2.1",
    "X-Azure-ClientIP": "192.0.2.1",
    "X-Vercel-Id": "fra1",
    "Tailscale-User-Login": "ada@example.org",
}


class _OldConnection(http.client.HTTPConnection):
    """An HTTP/1.0 client, like nginx to its backends."""

    _http_vsn = 10
    _http_vsn_str = "HTTP/1.0"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("open") / "web.log"


@pytest.fixture
def web(log: Path) -> Iterator[WebProcess]:
    environment = {
        "DJANGO_SETTINGS_MODULE": "config.settings.test",
        "ROLLDECK_ALLOWED_HOSTS": "127.0.0.1,localhost,[::1],deck.example",
    }
    with web_process(log, **environment) as process:
        yield process


def status(
    web: WebProcess,
    headers: dict[str, str] | None = None,
    *,
    kind: type[http.client.HTTPConnection] = http.client.HTTPConnection,
) -> int:
    connection = kind("127.0.0.1", web.port, timeout=30)
    try:
        connection.request("GET", "/info", headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


def test_programs_on_the_machine_need_no_credentials_and_proxies_do(web: WebProcess) -> None:
    own = f"127.0.0.1:{web.port}"
    for headers in (
        {},
        {"Host": f"localhost:{web.port}"},
        {"Host": f"[::1]:{web.port}"},
        {"Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"},
        {"Referer": f"http://{own}/runs"},
    ):
        assert status(web, headers) == 200, headers

    for name, value in PROXY_HEADERS.items():
        assert status(web, {name: value}) == 401, name
        assert status(web, {name.lower(): ""}) == 401, name
    for headers in (
        {"Host": "deck.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Referer": "https://evil.example/page"},
        {"Referer": "http://127.0.0.1:1/"},
        {"Referer": "about:blank"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert status(web, headers) == 401, headers
    assert status(web, kind=_OldConnection) == 401


async def test_sockets_need_credentials_in_open_mode_as_well(web: WebProcess) -> None:
    for headers in ({}, {"X-Real-IP": "192.0.2.1"}):
        async with (
            asyncio.timeout(30),
            connect(
                f"ws://127.0.0.1:{web.port}/ws/live",
                origin=Origin(web.url),
                additional_headers=headers,
            ) as page,
        ):
            with pytest.raises(ConnectionClosed):
                await page.recv()
            assert page.close_code == 4401
