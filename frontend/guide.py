"""Serve the built documentation site under /guide."""

import base64
import hashlib
import mimetypes
import re
from pathlib import Path
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import conditional_page, require_safe

from frontend.pages import CONTENT_SECURITY_POLICY

_INLINE_SCRIPT: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


@require_safe
@conditional_page
def page(request: HttpRequest, place: str = "") -> HttpResponse:
    """Return a file of the site; a path without a suffix is a page.

    Responds 404 with the page of the site for an unknown path, and 503 with the command that
    builds the site where there is none.
    """
    site = Path(settings.GUIDE_SITE)
    if not (site / "index.html").is_file():
        return render(request, "frontend/guide_not_built.html", status=503)
    file = _file_at(site, place or "index.html")
    if file is None:
        return _page(site / "404.html", status=404)
    if file.suffix == ".html":
        return _page(file, status=200)
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return HttpResponse(file.read_bytes(), content_type=kind)


def _file_at(site: Path, place: str) -> Path | None:
    """Return the file of a path within the site; None if there is none."""
    root = site.resolve()
    try:
        path = (root / place).resolve()
        files = (path, path.with_name(f"{path.name}.html"))
        return next((f for f in files if f.is_relative_to(root) and f.is_file()), None)
    except (OSError, ValueError):  # a path that is too long; a null byte
        return None


def _page(file: Path, *, status: int) -> HttpResponse:
    """Return a page whose policy permits exactly the inline scripts that the build put into it."""
    content = file.read_bytes()
    hashes = {
        base64.b64encode(hashlib.sha256(script).digest()).decode()
        for script in _INLINE_SCRIPT.findall(content)
    }
    scripts = " ".join(["script-src 'self'", *sorted(f"'sha256-{one}'" for one in hashes)])
    response = HttpResponse(content, status=status)
    response["Content-Security-Policy"] = f"{CONTENT_SECURITY_POLICY}; {scripts}"
    return response
