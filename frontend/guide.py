"""Serve the built documentation site under /guide, from a folder or from the archive of a wheel."""

import mimetypes
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from zipfile import Path as ArchivePath

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
    site = _site()
    if site is None:
        return render(request, "frontend/guide_not_built.html", status=503)
    file = _file_at(site, place or "index.html")
    if file is None:
        return _page(site / "404.html", status=404)
    if file.name.endswith(".html"):
        return _page(file, status=200)
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return HttpResponse(file.read_bytes(), content_type=kind)


def _site() -> Traversable | None:
    """Return the root of the site: the folder of a build, or the archive beside it."""
    folder = Path(settings.GUIDE_SITE)
    if (folder / "index.html").is_file():
        return folder.resolve()
    archive = folder.with_suffix(".zip")
    return _opened(archive) if archive.is_file() else None


@cache
def _opened(archive: Path) -> Traversable:
    """Return the root of an archive, whose list of files is read once."""
    return ArchivePath(archive)


def _file_at(site: Traversable, place: str) -> Traversable | None:
    """Return the file of a path within the site; None if there is none."""
    path = PurePosixPath(place)
    steps = path.parts
    if not steps or path.is_absolute() or ".." in steps:
        return None
    try:
        files = (site.joinpath(*steps), site.joinpath(*steps[:-1], f"{steps[-1]}.html"))
        return next((file for file in files if file.is_file()), None)
    except (OSError, ValueError):  # a path that is too long; a null byte
        return None


def _page(file: Traversable, *, status: int) -> HttpResponse:
    """Return a page whose policy permits exactly the inline scripts that the build put into it."""
    content = file.read_bytes()
    response = HttpResponse(content, status=status)
    response["Content-Security-Policy"] = content_security_policy(content)
    return response
