"""The proxy of docker-compose.yml with TLS in front of a server, as a process of this machine."""

import ssl
import subprocess
from collections.abc import Iterator
from typing import Final

import httpx
import pytest
import yaml
from websockets.sync.client import connect

from tests import processes
from tests.compose_services import interpolated
from tests.server import ADMIN_TOKEN, NO_RAY, ROOT, free_port, running_server, wait_until

pytestmark = [pytest.mark.system, pytest.mark.full("starts a server and a proxy")]
SERVICE: Final = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["caddy"]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ssl.SSLContext]]:
    """The address of the proxy, and the certificates that its clients trust."""
    folder, port = tmp_path_factory.mktemp("proxy"), free_port()
    url = f"https://localhost:{port}"
    more = {
        "RAY_ADDRESS": NO_RAY,
        "ROLLDECK_AUTH": "required",
        "ROLLDECK_HTTPS": "1",
        "ROLLDECK_PUBLIC_URL": url,
        "ROLLDECK_TRUSTED_PROXIES": "127.0.0.1",
    }
    with running_server(folder / "var", **more) as server:
        words = command(server.port, domain=f"localhost:{port}")
        # Without update-ca-certificates in its path, Caddy does not change this machine's list.
        own = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "PATH": str(folder)}
        with (folder / "caddy.log").open("wb") as log:
            caddy = processes.start(["/usr/bin/caddy", *words[1:]], env=own, stdout=log, stderr=log)
        root = folder / "caddy/pki/authorities/local/root.crt"
        try:
            wait_until(lambda: is_healthy(port), seconds=30, what="the proxy is healthy")
            yield url, ssl.create_default_context(cafile=str(root))
        finally:
            caddy.terminate()
            caddy.wait()


def command(port: int, *, domain: str) -> list[str]:
    words = [interpolated(word, {"ROLLDECK_DOMAIN": domain}) for word in SERVICE["command"]]
    assert "web:8000" in words
    return [word.replace("web:8000", f"127.0.0.1:{port}") for word in words]


def is_healthy(port: int) -> bool:
    """Return the result of the service's health check, on the port of this test."""
    kind, *words = SERVICE["healthcheck"]["test"]
    assert (kind, words[-1]) == ("CMD", "443")
    return subprocess.run([*words[:-1], str(port)], check=False).returncode == 0


def test_requests_and_sockets_pass_the_proxy(proxy: tuple[str, ssl.SSLContext]) -> None:
    url, trusted = proxy
    token = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    with httpx.Client(base_url=url, verify=trusted, headers=token, timeout=60) as client:
        answer = client.get("/api/v1/server")
        page = client.get("/login")
        made = client.post("/api/v1/runs", json={"name": "tls", "kind": "outside", "start": True})
        large = client.post("/api/v1/runs/tls/groups", content=b"{" + b" " * (8 << 20))
    address = f"{url.replace('https', 'wss')}/ws/runs/tls/control"
    headers = {**token, "Origin": url}
    with connect(address, ssl=trusted, additional_headers=headers, proxy=None) as control:
        state = control.recv(timeout=30)

    assert answer.status_code == page.status_code == 200
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
    assert "Secure" in page.headers["Set-Cookie"]
    assert made.status_code == 201, made.text
    assert state
    assert large.status_code in {400, 415, 422}, large.text
