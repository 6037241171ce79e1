"""Serve the built documentation site under /guide."""

import mimetypes
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import conditional_page, require_safe

from frontend.pages import content_security_policy


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
    response = HttpResponse(content, status=status)
    response["Content-Security-Policy"] = content_security_policy(content)
    return response
