"""Platform for one fleet that publishes weights, and counts and discards fragments."""

import contextlib
import hashlib
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec
from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.wire import (
    FleetControl,
    FleetReport,
    FragmentPush,
    FragmentReceipt,
    WeightsManifest,
)

EPOCH: Final = 1
ROOM: Final = 1 << 30
"""More fragments than a fleet can produce during a measurement."""
POLL_SECONDS: Final = 1.0


class SinkPlatform:
    """State behind the routes below."""

    def __init__(self) -> None:
        self.fragments = 0
        """Number of accepted fragments."""
        self.report: FleetReport | None = None
        """The newest report."""
        self._step = -2
        self._manifest: WeightsManifest | None = None
        self._content = b""
        self._changed = threading.Condition()

    def publish(self, tensors: Mapping[str, NDArray[Any]], *, step: int) -> None:
        """Publish a version of the weights."""
        content = safetensors.encode(tensors)
        manifest = WeightsManifest(
            epoch=EPOCH,
            step=step,
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
            tensors=safetensors.specs(content),
        )
        with self._changed:
            self._manifest, self._content, self._step = manifest, content, step
            self._changed.notify_all()

    def control(self, *, after: str = "", wait_seconds: float = 0.0) -> bytes:
        """Return the pending commands once they differ from the fingerprint `after`."""
        with self._changed:
            self._changed.wait_for(lambda: str(self._step) != after, wait_seconds)
            control = FleetControl(
                fingerprint=str(self._step),
                desired="running",
                epoch=EPOCH,
                policy_step=self._step,
                admission_remaining=ROOM,
            )
        return msgspec.json.encode(control)

    def get(self, path: str, query: Mapping[str, list[str]]) -> bytes | None:
        """Return the content of a path; None if it does not exist."""
        if path.endswith("/fleet/control"):
            wait = min(POLL_SECONDS, float(query.get("wait", ["0"])[0]))
            return self.control(after=query.get("after", [""])[0], wait_seconds=wait)
        if path.endswith("/weights/current"):
            return None if self._manifest is None else msgspec.json.encode(self._manifest)
        return self._content

    def post(self, path: str, body: bytes) -> bytes:
        """Accept a body and return the response."""
        if path.endswith("/fleet/report"):
            self.report = msgspec.json.decode(body, type=FleetReport)
            return self.control()
        accepted = len(msgspec.msgpack.decode(body, type=FragmentPush).fragments)
        self.fragments += accepted
        receipt = FragmentReceipt(
            accepted=accepted, duplicates=0, dropped={}, admission_remaining=ROOM
        )
        return msgspec.json.encode(receipt)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    platform: SinkPlatform

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        content = self.platform.get(url.path, parse_qs(url.query))
        self._answer(404, b'{"code": "no_weights"}') if content is None else self._answer(
            200, content
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, self.platform.post(self.path, body))

    def _answer(self, status: int, body: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of a handler, unless the client has disconnected."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def served(platform: SinkPlatform) -> Iterator[str]:
    """Serve `platform` on the loopback interface until the block ends; yield its URL."""
    handler = type("Handler", (_Handler,), {"platform": platform})
    server = _Server(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
