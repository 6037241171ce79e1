"""The proxy of campaigns injects each fault of the network, and none once it has ended."""

import socket

import pytest
import urllib3

from rolldeck.chaos.proxy import NetworkFault, Proxy
from tests.unit.client.failing_server import Planned, in_turn, serving
from tests.waiting import eventually

BODY = b'{"done": true}'


def request(url: str) -> bytes:
    """Return the body of a response, empty if there is none."""
    http = urllib3.PoolManager(retries=False, timeout=0.5)
    try:
        return http.request("GET", f"{url}/x").data
    except urllib3.exceptions.HTTPError:
        return b""
    finally:
        http.clear()


@pytest.mark.parametrize(
    "fault", ["refuse", "reset", "silence", "half_open", "delay", "cut_request", "cut_answer"]
)
def test_a_request_fails_under_each_fault_and_succeeds_after_it(
    fault: NetworkFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolldeck.chaos.proxy.CUT_SHARE", 1.0)
    with serving(in_turn(Planned(body=BODY))) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        with Proxy(host, int(port)) as proxy:
            assert request(proxy.url) == BODY

            proxy.set_fault(fault)
            assert request(proxy.url) != BODY
            proxy.set_fault("none")

            assert request(proxy.url) == BODY


def test_a_closed_proxy_accepts_no_connection() -> None:
    with serving(in_turn(Planned(body=BODY))) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        proxy = Proxy(host, int(port))
        proxy.close()

        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port), timeout=1)


def test_closing_a_proxy_ends_its_connections_without_a_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(in_turn(Planned(body=BODY))) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        proxy = Proxy(host, int(port))
        proxy.set_fault("silence")
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as waiting:
            waiting.sendall(b"GET / HTTP/1.1\r\n\r\n")
            eventually(lambda: proxy._writers)
            proxy.close()
            assert waiting.recv(1) == b""

    assert caplog.text == ""
