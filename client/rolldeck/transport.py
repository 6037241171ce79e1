"""Transport of `httpx` over `urllib3`, which receives without copies.

For a response of 4.7 MB it takes two thirds of the processor time of the transport of httpx.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import urllib3
from urllib3 import exceptions

# A body up to this size is received in one piece, and not copied after that.
WHOLE_BYTES: Final = 16 << 20
# Pieces of longer bodies: a broken download continues after its last whole piece.
PIECE_BYTES: Final = 1 << 20
MOST_IDLE: Final = 20
"""Connections of one server that are kept for later requests."""


def transport_for(url: str) -> httpx.BaseTransport | None:
    """Return the transport for a server, or None if the environment names a proxy for it."""
    parts = urlsplit(url)
    proxies = getproxies()
    if (parts.scheme in proxies or "all" in proxies) and not proxy_bypass(parts.hostname or ""):
        return None
    tls = httpx.create_ssl_context() if parts.scheme == "https" else None
    return Transport(tls)


class Transport(httpx.BaseTransport):
    """HTTP/1.1 with a pool of kept connections; thread-safe.

    Args:
        tls: TLS settings for https; None for those of urllib3.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._pool = urllib3.PoolManager(maxsize=MOST_IDLE, ssl_context=tls)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response with an unread body.

        Raises:
            httpx.TransportError: If the connection fails.
        """
        timeout: Mapping[str, float | None] = request.extensions.get("timeout", {})
        with _errors():
            answer = self._pool.urlopen(
                request.method,
                str(request.url),
                headers=_headers(request),
                body=_body_of(request),
                timeout=urllib3.Timeout(connect=timeout.get("connect"), read=timeout.get("read")),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        return httpx.Response(
            answer.status, headers=list(answer.headers.items()), stream=_Body(answer)
        )

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()


class _Body(httpx.SyncByteStream):
    """The body of a response; its connection is kept once the body was read."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        length = self._answer.length_remaining
        # With a size, the bytes before a break are returned; without one they are lost.
        # An empty body is read without one, which releases the connection.
        size = PIECE_BYTES if length is None or length > WHOLE_BYTES else length or None
        while True:
            with _errors():
                piece = self._answer.read(size)
            if not piece:
                return
            yield piece

    def close(self) -> None:
        """Close the connection, unless the whole body was read."""
        self._answer.close()


def _headers(request: httpx.Request) -> urllib3.HTTPHeaderDict:
    headers = urllib3.HTTPHeaderDict()
    for name, value in request.headers.raw:
        headers.add(name.decode("latin-1"), value.decode("latin-1"))
    # urllib3 adds its own values for these, unless they are skipped.
    for automatic in ("accept-encoding", "user-agent"):
        headers.setdefault(automatic, urllib3.util.SKIP_HEADER)
    return headers


def _body_of(request: httpx.Request) -> Any:
    try:
        return request.content or None
    except httpx.RequestNotRead:
        return request.stream


@contextmanager
def _errors() -> Iterator[None]:
    """Raise the errors of urllib3 as those of httpx."""
    try:
        yield
    except (exceptions.NewConnectionError, exceptions.SSLError) as error:
        raise httpx.ConnectError(str(error)) from error
    except exceptions.ConnectTimeoutError as error:
        raise httpx.ConnectTimeout(str(error)) from error
    except exceptions.ReadTimeoutError as error:
        raise httpx.ReadTimeout(str(error)) from error
    except exceptions.HTTPError as error:
        raise httpx.RemoteProtocolError(str(error)) from error
