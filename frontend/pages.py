"""Serve the built dashboard, the same page for all of its URLs."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

# The page loads nothing from other hosts. Component styles are computed, hence 'unsafe-inline'.
_POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_INLINE_SCRIPT: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


@require_safe
@never_cache
@ensure_csrf_cookie
def index(request: HttpRequest, **_place: str) -> HttpResponse:
    """Return the dashboard's page, which routes the URL in the browser.

    Responds 503 with instructions if the dashboard was not built.
    """
    page = Path(settings.FRONTEND_DIST) / "index.html"
    try:
        response = HttpResponse(_mark_session(page.read_bytes(), request))
    except FileNotFoundError:
        response = render(request, "frontend/not_built.html", {"page": page}, status=503)
    response["Content-Security-Policy"] = content_security_policy(response.content)
    return response


def content_security_policy(page: bytes) -> str:
    """Return the policy of a built page, which permits exactly its own inline scripts."""
    hashes = {
        base64.b64encode(hashlib.sha256(script).digest()).decode()
        for script in _INLINE_SCRIPT.findall(page)
    }
    scripts = " ".join(["script-src 'self'", *sorted(f"'sha256-{one}'" for one in hashes)])
    return f"{_POLICY}; {scripts}"


def _mark_session(page: bytes, request: HttpRequest) -> bytes:
    """Mark the page for a browser with a session cookie, which scripts cannot read.

    Its scripts then request the page's data without checking the session first.
    """
    has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
    return page.replace(b"<html", b"<html data-session", 1) if has_session else page
