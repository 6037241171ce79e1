"""HTTP server of the gateway.

``GET /healthz`` needs no token, and returns an id that changes with every start. ``POST /calls``
takes a :class:`Call` and returns an :class:`Answer`; ``POST /probes`` takes a :class:`Probe` and
returns an :class:`Outcome`, or 429.
"""

import hmac
import logging
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import ClassVar, Final

import msgspec

from rollouts.fleet.gateway.drivers import Drivers, unreachable
from rollouts.fleet.gateway.messages import MOST_PROBE_SECONDS, Call, Probe, gateway_of
from rollouts.fleet.gateway.probes import TooManyProbes, run_probe

logger = logging.getLogger(__name__)

MOST_BODY_BYTES: Final = 8 << 20
SOCKET_SECONDS: Final = 30.0
"""Time without a byte after which a connection is closed."""
HEAD_SECONDS: Final = 1.0


class Gateway(ThreadingTCPServer):
    """Server on the port after the head's."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str, *, token: str) -> None:
        """Bind the socket; `address` is that of Ray's head, and `token` the cluster's.

        Raises:
            OSError: If the port is in use.
            ValueError: If the address is not ``host:port``.
        """
        super().__init__(gateway_of(address), _Handler)
        self._address = address
        self._token = token.encode()
        self._drivers = Drivers(address)
        self.id = secrets.token_hex(8).encode()
        """Changes with every start of the gateway, and so of the head that it runs."""

    def is_permitted(self, authorization: str) -> bool:
        """Return whether a request has the token of the cluster."""
        return hmac.compare_digest(authorization.encode(), b"Bearer " + self._token)

    def head_answers(self) -> bool:
        """Return whether Ray's head accepts connections."""
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=HEAD_SECONDS).close()
        except OSError:
            return False
        return True

    def call(self, body: bytes) -> bytes:
        """Run a call to the cluster."""
        call = msgspec.json.encode(msgspec.json.decode(body, type=Call))
        if not self.head_answers():  # Ray itself would retry for many seconds
            return unreachable(f"no Ray cluster at {self._address}: connection refused")
        return self._drivers.ask(call)

    def probe(self, body: bytes) -> bytes:
        """Run a probe.

        Raises:
            TooManyProbes: If too many are in progress.
        """
        probe = msgspec.json.decode(body, type=Probe)
        seconds = min(probe.seconds, MOST_PROBE_SECONDS)
        return msgspec.json.encode(run_probe(probe.request, seconds=seconds))


class _Handler(BaseHTTPRequestHandler):
    server: Gateway
    timeout = SOCKET_SECONDS
    server_version = "rolldeck-gateway"
    sys_version = ""
    routes: ClassVar[dict[str, Callable[[Gateway, bytes], bytes]]] = {
        "/calls": Gateway.call,
        "/probes": Gateway.probe,
    }

    def do_GET(self) -> None:
        if self.path != "/healthz":
            self._answer(HTTPStatus.NOT_FOUND, b"no such route")
        elif self.server.head_answers():
            self._answer(HTTPStatus.OK, self.server.id)
        else:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"Ray's head accepts no connections")

    def do_POST(self) -> None:
        route = self.routes.get(self.path)
        length = self.headers.get("Content-Length", "")
        if not self.server.is_permitted(self.headers.get("Authorization", "")):
            self._answer(HTTPStatus.UNAUTHORIZED, b"the token is not that of this cluster")
        elif route is None:
            self._answer(HTTPStatus.NOT_FOUND, b"no such route")
        elif not length.isdigit() or int(length) > MOST_BODY_BYTES:
            self._answer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                b"the length of the body is missing or too large",
            )
        else:
            self._run(route, self.rfile.read(int(length)))

    def _run(self, route: Callable[[Gateway, bytes], bytes], body: bytes) -> None:
        try:
            answer = route(self.server, body)
        except msgspec.MsgspecError as error:
            self._answer(HTTPStatus.BAD_REQUEST, str(error).encode())
        except TooManyProbes as error:
            self._answer(HTTPStatus.TOO_MANY_REQUESTS, str(error).encode())
        else:
            self._answer(HTTPStatus.OK, answer)

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 name of the base class
        """Log requests on level debug: reconcilers ask every few seconds."""
        logger.debug(format, *args)
