"""Accept sockets of the deck's own pages only.

Browsers attach cookies to sockets that any page opens, and do not apply their rule of the same
origin. The cookies of `127.0.0.1` are those of every program on the machine that serves pages.
"""

from typing import Final
from urllib.parse import SplitResult, urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

from config.body_limits import App, Receive, Scope, Send

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HTTP_SCHEMES: Final = {"ws": "http", "wss": "https"}
Origin = tuple[str, str, int | None]


class SocketOrigins:
    """ASGI middleware: refuses a socket whose Origin is not that of the deck.

    Scheme, host and port have to equal those of the request, or those of ROLLDECK_PUBLIC_URL or of
    one of ROLLDECK_TRUSTED_ORIGINS. A Host outside of ROLLDECK_ALLOWED_HOSTS refuses, too.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the socket on, or refuse it."""
        app = self._app if is_own(scope) else WebsocketDenier()
        await app(scope, receive, send)


def is_own(scope: Scope) -> bool:
    """Return whether the origin of a socket's page is that of the deck."""
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
    """Return whether a trusted origin is this one; `https://*.example.org` means any subdomain."""
    if "://*." not in trusted:
        return origin == _parsed(trusted)
    parent = _parsed(trusted.replace("://*.", "://", 1))
    if parent is None:
        return False
    scheme, host, port = parent
    return origin[1].endswith(f".{host}") and (origin[0], origin[2]) == (scheme, port)


def _scheme(scope: Scope) -> str:
    # Behind a proxy that ends TLS, the connection to the deck itself has none.
    if settings.SESSION_COOKIE_SECURE:
        return "https"
    return _HTTP_SCHEMES.get(scope.get("scheme", "ws"), "http")


def _header(scope: Scope, name: bytes) -> list[str]:
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
