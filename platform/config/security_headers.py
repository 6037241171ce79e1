"""Security headers of pages: Content-Security-Policy and Strict-Transport-Security."""

from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

_POLICY: Final = (
    "default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PAGES: Final = _POLICY.format(scripts="'self'")
# The admin uses Alpine, which compiles the expressions of its attributes.
ADMIN: Final = _POLICY.format(scripts="'self' 'unsafe-eval'")


class SecurityHeaders:
    """Middleware that adds a policy to HTML responses without one, and HSTS to all responses."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        seconds = settings.ROLLDECK_HSTS_SECONDS if settings.SESSION_COOKIE_SECURE else 0
        self._transport = f"max-age={seconds}" if seconds else ""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Add the headers to the response."""
        response = self._get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            is_admin = request.path.startswith("/admin/")
            response.headers.setdefault("Content-Security-Policy", ADMIN if is_admin else PAGES)
        if self._transport:
            response.headers["Strict-Transport-Security"] = self._transport
        return response
