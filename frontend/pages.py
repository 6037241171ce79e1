"""Serve the built dashboard, one page for each of its addresses."""

from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

# The page loads nothing from anywhere else. Component styles are computed, hence the inline ones.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self' ws: wss:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)


@require_safe
@never_cache
@ensure_csrf_cookie
def index(request: HttpRequest, **_place: str) -> HttpResponse:
    """Return the dashboard; the place within it is the browser's business.

    Answers 503 with instructions when the dashboard was never built.
    """
    page = Path(settings.FRONTEND_DIST) / "index.html"
    try:
        response = HttpResponse(_told_of_session(page.read_bytes(), request))
    except FileNotFoundError:
        response = render(request, "frontend/not_built.html", {"page": page}, status=503)
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return response


def _told_of_session(page: bytes, request: HttpRequest) -> bytes:
    """Mark the page for a browser that has a session's cookie, which no script can see.

    Its scripts then ask for what the page shows without asking first who is there.
    """
    has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
    return page.replace(b"<html", b"<html data-session", 1) if has_session else page
