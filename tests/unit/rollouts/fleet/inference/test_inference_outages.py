"""An inference server that does not answer is reported while its requests are repeated."""

import asyncio
import http.server
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from rollouts.fleet.engine.engine import Prompt, SamplingParams
from rollouts.fleet.inference import http_client
from rollouts.fleet.inference.http_client import HttpInferenceServer
from runs.config.rules.servers import InferenceServerSettings
from tests.waiting import eventually


class Answering(http.server.BaseHTTPRequestHandler):
    """Server that is busy until `is_up`, and then refuses the prompt."""

    is_up = threading.Event()
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(400 if self.is_up.is_set() else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HttpInferenceServer]:
    Answering.is_up.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.server_port}"
        client = HttpInferenceServer(InferenceServerSettings(kind="rolldeck", url=url))
        yield client
        client.close()
        listener.shutdown()


def test_outage_is_reported_until_the_server_answers(
    server: HttpInferenceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "OUTAGE_SECONDS", 0.3)
    prompt = Prompt(tokens=(1,), sampling=SamplingParams(max_tokens=1), answers=1)
    stop = threading.Event()
    failures: list[Exception] = []

    def generate() -> None:
        try:
            server.generate([prompt], stop=stop, timeout_seconds=120)
        except Exception as failure:  # noqa: BLE001 compared below
            failures.append(failure)

    thread = threading.Thread(target=generate)
    assert server.outage() == ""
    thread.start()
    try:
        eventually(lambda: "has not answered for" in server.outage(), 60)
        assert server.outage().endswith(": 503 ")
        Answering.is_up.set()
        thread.join(60)
    finally:
        stop.set()

    assert server.outage() == ""
    assert "400" in str(failures[0])


def test_a_close_on_a_busy_machine_is_completed_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "CLOSE_SECONDS", 0.01)
    settings = InferenceServerSettings(kind="rolldeck", url="http://127.0.0.1:1")
    client = HttpInferenceServer(settings)
    client._loop.call_soon_threadsafe(time.sleep, 0.2)

    client.close()

    assert client._runner.is_alive()
    eventually(lambda: not client._runner.is_alive(), 10)
    assert client._http.is_closed


def connections_to(port: int) -> int:
    connections = psutil.Process().net_connections("tcp")
    return sum(bool(one.raddr) and one.raddr.port == port for one in connections)


@pytest.mark.parametrize("ends", ["cancelled", "closed"])
@pytest.mark.parametrize("turns", range(6), ids="after {} turns of the event loop".format)
def test_a_request_that_ends_while_expired_connections_close_leaves_none_open(
    server: HttpInferenceServer, turns: int, ends: str
) -> None:
    async def at_once(requests: int) -> None:
        await asyncio.gather(*(server._http.post("/", content=b"") for _ in range(requests)))

    async def later() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    port = int(server._settings.url.rpartition(":")[2])
    server._portal.call(at_once, 5)
    assert connections_to(port) > 1
    for connection in server._http._transport._pool.connections:  # type: ignore[attr-defined]
        connection._connection._expire_at = 0.0
    request = server._portal.start_task_soon(server._http.post, "/")
    server._portal.call(later)
    if ends == "cancelled":
        request.cancel()
    server.close()

    server._runner.join(10)
    assert connections_to(port) == 0
