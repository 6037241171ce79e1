"""An HTTP server with scripted responses that records its requests."""

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Seen:
    """One received request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Planned:
    """One scripted response; status 0 closes the connection without a response.

    With `headers_sent`, the connection closes after so many bytes of the status line and headers.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_sent: int | None = None


Rule = Callable[[Seen], Planned]


@dataclass
class Server:
    """A running server."""

    url: str
    seen: list[Seen]


@contextlib.contextmanager
def serving(rule: Rule, *, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve the responses of `rule` on a free loopback port, with TLS if configured."""
    seen: list[Seen] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Seen(self.command, self.path, dict(self.headers.items()), body)
            seen.append(request)
            planned = rule(request)
            if planned.status == 0:
                self.close_connection = True
                return
            self.send_response(planned.status)
            for name, value in planned.headers.items():
                self.send_header(name, value)
            if planned.status != 204:
                self.send_header("Content-Length", str(len(planned.body)))
            if planned.headers_sent is not None:
                self.wfile.write(b"".join(self._headers_buffer)[: planned.headers_sent])
                self._headers_buffer = []
                self.close_connection = True
                return
            self.end_headers()
            if planned.status != 204:
                self.wfile.write(planned.body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 names that http.server looks for

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(url=f"http://127.0.0.1:{server.server_port}", seen=seen)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def in_turn(*answers: Planned) -> Rule:
    """Return the responses in order, and repeat the last one."""
    left = list(answers)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]
