"""A file that this process offers to one other host over HTTP."""

import secrets
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import urlsplit

from rollouts.fleet.inference.weights import Unreachable

CONNECT_SECONDS: Final = 10.0
SEND_SECONDS: Final = 600.0


class OfferedFile:
    """Server with one file, under an address that cannot be guessed."""

    def __init__(self, content: bytes, *, reader: str) -> None:
        """Offer the file at the network interface that leads to its reader.

        Args:
            content: The file.
            reader: HTTP address of a service on the reader's host.

        Raises:
            Unreachable: If the reader's host cannot be reached.
        """
        self._requested, self._sent = threading.Event(), threading.Event()
        path = f"/{secrets.token_urlsafe(16)}"
        family, host = _interface_towards(reader)

        class Server(ThreadingHTTPServer):
            address_family = family
            daemon_threads = True

        self._server = Server((host, 0), self._handler(path, content))
        port = self._server.server_address[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def is_requested(self, seconds: float) -> bool:
        """Return whether the file is requested within some seconds."""
        return self._requested.wait(seconds)

    def wait_until_sent(self) -> None:
        """Wait until the file was sent once, or the connection ended."""
        self._sent.wait(SEND_SECONDS)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self, path: str, content: bytes) -> type[BaseHTTPRequestHandler]:
        requested, sent = self._requested, self._sent

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != path:
                    self.send_error(404)
                    return
                requested.set()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                finally:
                    sent.set()

            def log_message(self, *_: Any) -> None:
                """Write no access log."""

        return Handler


def _interface_towards(url: str) -> tuple[socket.AddressFamily, str]:
    """Return family and address of the interface that leads to a host."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), CONNECT_SECONDS) as connection:
            return connection.family, connection.getsockname()[0]
    except OSError as error:
        raise Unreachable(f"{url}: {error}") from error
