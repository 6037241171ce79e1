"""Restrict websockets to the deployment's own pages.

Browsers attach cookies to websockets opened by any page, without a same-origin check. Programs on
one machine that serve pages on `127.0.0.1` all share that host's cookies.
"""

from typing import Final
from urllib.parse import SplitResult, urlsplit

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, WebSocketScope
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HTTP_SCHEMES: Final = {"ws": "http", "wss": "https"}
Origin = tuple[str, str, int | None]


class SocketOrigins:
    """ASGI middleware that rejects a websocket with a foreign Origin.

    Scheme, host and port must equal those of the request, of ROLLDECK_PUBLIC_URL or of one of
    ROLLDECK_TRUSTED_ORIGINS. A Host outside of ROLLDECK_ALLOWED_HOSTS is rejected, too.
    """

    def __init__(self, app: ASGI3Application) -> None:
        self._app = app

    async def __call__(
        self, scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Pass the websocket on, or reject it."""
        app = self._app if is_own(scope) else WebsocketDenier()
        await app(scope, receive, send)


def is_own(scope: WebSocketScope) -> bool:
    """Return whether a websocket's page has the deployment's origin."""
    origins, hosts = _header(scope, b"origin"), _header(scope, b"host")
    if len(origins) != 1 or len(hosts) != 1:
        return False
    origin = _parsed(origins[0])
    own = _parsed(f"{_scheme(scope)}://{hosts[0]}")
    if origin is None or own is None or not validate_host(own[1], settings.ALLOWED_HOSTS):
        return False
    trusted = (settings.ROLLDECK_PUBLIC_URL, *settings.CSRF_TRUSTED_ORIGINS)
    return origin == own or any(_matches(origin, one) for one in trusted)


def _matches(origin: Origin, trusted: str) -> bool:
    """Return whether the origins match; `https://*.example.org` matches any subdomain."""
    if "://*." not in trusted:
        return origin == _parsed(trusted)
    parent = _parsed(trusted.replace("://*.", "://", 1))
    if parent is None:
        return False
    scheme, host, port = parent
    return origin[1].endswith(f".{host}") and (origin[0], origin[2]) == (scheme, port)


def _scheme(scope: WebSocketScope) -> str:
    # Behind a proxy that terminates TLS, the connection to this server has none.
    if settings.SESSION_COOKIE_SECURE:
        return "https"
    return _HTTP_SCHEMES.get(scope.get("scheme", "ws"), "http")


def _header(scope: WebSocketScope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for known, value in scope["headers"] if known == name]


def _parsed(url: str) -> Origin | None:
    try:
        parts: SplitResult = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host or parts.username is not None:
        return None
    host = f"[{host}]" if ":" in host else host
    return parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme]
