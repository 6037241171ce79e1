"""Language runs whose inference server is driven into a known state."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import safetensors.numpy

from examples import tiny_checkpoint
from rolldeck.trainer import Trainer
from tests import processes
from tests.server import ADMIN_TOKEN, ROOT, Server, environment, free_port, wait_until

INFERENCE_PORT: Final = free_port()
FAILING_PORT: Final = free_port()
BEHIND_PORT: Final = free_port()


@contextmanager
def inference_down(server: Server, run: str, folder: Path) -> Iterator[None]:
    """Stop the inference server of a language run after its first groups."""
    with _generating(server, run, folder, port=INFERENCE_PORT) as process:
        process.kill()
        yield


@contextmanager
def inference_failed(server: Server, run: str, folder: Path) -> Iterator[None]:
    """Answer every request for a generation with 507, after the first groups."""
    with (
        _FailingProxy(port=FAILING_PORT, of=BEHIND_PORT) as proxy,
        _generating(server, run, folder, port=BEHIND_PORT, inference="failing"),
    ):
        proxy.is_failing.set()
        yield


class _FailingProxy(ThreadingHTTPServer):
    """Proxy of an inference server that can refuse to generate."""

    daemon_threads = True

    def __init__(self, *, port: int, of: int) -> None:
        self.is_failing = threading.Event()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{of}", timeout=60)
        super().__init__(("127.0.0.1", port), _Forwarding)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that close their connections."""

    def server_close(self) -> None:
        self.shutdown()
        super().server_close()


class _Forwarding(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _FailingProxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command == "POST" and self.server.is_failing.is_set():
            self._answer(507, b'{"error": "out of memory"}')
            return
        try:
            answer = self.server.client.request(self.command, self.path, content=body)
        except httpx.TransportError as error:
            self._answer(502, str(error).encode())
        else:
            self._answer(answer.status_code, answer.content)

    do_GET = do_POST = do_PUT = handle_any  # noqa: N815 names of http.server

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextmanager
def _generating(
    server: Server, run: str, folder: Path, *, port: int, inference: str = "local"
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a language run until its first groups; return the process of its inference server."""
    checkpoint = folder / "checkpoints" / "tiny"
    tiny_checkpoint.write(checkpoint)
    with _inference_server(server, checkpoint, port=port) as process:
        lessons = {"sums": {"spec": "task:reverse", "sampling": {"max_tokens": 4}}}
        config = {
            "language": {
                "lessons": lessons,
                "model": {"checkpoint": "tiny"},
                "inference": inference,
                "group_size": 4,
                "prompts_per_batch": 2,
            },
            "fleet": {"num_workers": 1, "num_cpus_per_worker": 0.5},
            "buffer": {"batch_size": 16},
        }
        body = {"name": run, "kind": "fleet", "config": config, "start": True}
        server.post("/api/v1/runs", body)
        with Trainer(server.url, run, ADMIN_TOKEN) as trainer:
            trainer.register()
            tensors = safetensors.numpy.load_file(checkpoint / "model.safetensors")
            trainer.publish_weights(tensors, step=0)
        ledger = f"/api/v1/runs/{run}/ledger"
        wait_until(
            lambda: server.get(ledger)["groups"]["accepted"] > 0, seconds=180, what="a group"
        )
        yield process


@contextmanager
def _inference_server(
    server: Server, checkpoint: Path, *, port: int
) -> Iterator["subprocess.Popen[bytes]"]:
    command = [
        *(sys.executable, "-m", "rolldeck.cli", "inference", "--accept-weights", "--threads", "1"),
        *("--port", str(port), "--checkpoint", str(checkpoint)),
    ]
    with (server.var / f"serve-{port}.log").open("wb") as log:
        process = processes.start(
            command,
            cwd=ROOT,
            env=environment(server.var, server.port) | {"PYTHONPATH": ".:platform:client"},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)
