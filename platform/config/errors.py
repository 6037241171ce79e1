"""Errors as responses: of API views, of all other requests, and the page of all codes.

Django calls the handlers of pages for unknown paths, and for errors in middleware, sessions and
views. The `type` of a problem leads to the page of its code.
"""

import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from django.core.exceptions import DisallowedHost, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template import loader
from django.views import defaults
from rest_framework import exceptions
from rest_framework.views import set_rollback

from buffer.atropos.api import view
from buffer.atropos.rules import NAMES as ATROPOS_NAMES
from frontend.pages import index
from web import outages
from web.http.problems import respond
from web.rules import errors
from web.rules.errors import ApiError, Internal, Invalid, NotFound

logger = logging.getLogger(__name__)


_API_FOLDERS: Final = ("/api/", "/healthz/")
_API_PATHS: Final = ("/metrics", "/openapi.json")
_REJECTED: Final = "the request is malformed, or its session has ended"
_UNKNOWN_HOST: Final = "the Host header names no allowed host (ROLLDECK_ALLOWED_HOSTS)"


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Respond to a path that no route matches."""
    detail = f"no route matches {request.path}"
    if _is_api(request):
        return respond(NotFound(detail))
    if request.path.startswith("/atropos/"):
        return view.json_response({"detail": detail}, status=404)
    if _is_read(request) and not request.path.startswith(("/admin/", "/static/")):
        # The dashboard shows its own "not found" page, with links to others.
        page = index(request)
        page.status_code = max(page.status_code, 404)
        return page
    return defaults.page_not_found(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Respond to a request that Django rejects; an unsaved session counts as an outage."""
    if outages.is_outage(exception):
        return unavailable(request)
    # Exceptions of Django may contain internals, so their text is not sent.
    detail = _UNKNOWN_HOST if isinstance(exception, DisallowedHost) else _REJECTED
    if _is_api(request):
        return respond(Invalid(detail))
    if _is_atropos(request):
        return view.json_response({"detail": detail}, status=400)
    return defaults.bad_request(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Respond to an unhandled error: 503 for an outage, otherwise 500."""
    if outages.is_outage(sys.exc_info()[1]):
        return unavailable(request)
    if _is_api(request):
        return respond(Internal("see the server's log"))
    if _is_atropos(request):
        return view.json_response({"detail": "Internal Server Error"}, status=500)
    return defaults.server_error(request)


def unavailable(request: HttpRequest) -> HttpResponse:
    """Respond 503 with `Retry-After`: problem details, Atropos' JSON or a page."""
    if _is_api(request):
        return respond(outages.Outage())
    if _is_atropos(request):
        return view.unavailable()
    page = loader.get_template("503.html").render()
    response = HttpResponse(page, status=HTTPStatus.SERVICE_UNAVAILABLE)
    response["Retry-After"] = str(outages.RETRY_AFTER_SECONDS)
    return response


def _is_read(request: HttpRequest) -> bool:
    return request.method == "GET" and "text/html" in request.headers.get("Accept", "")


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith(_API_FOLDERS) or request.path in _API_PATHS


def _is_atropos(request: HttpRequest) -> bool:
    path = request.path
    if path == "/":  # the dashboard for a browser, Atropos' greeting for a client
        return not _is_read(request)
    return path.startswith("/atropos/") or path[1:] in ATROPOS_NAMES


class BodyUnreadable(errors.Invalid):
    """The body is not in the form that its content type names."""

    field = "body"


# Errors of the frameworks; the most specific class of an exception wins.
FRAMEWORK_ERRORS: Final[dict[type[Exception], type[ApiError]]] = {
    exceptions.NotAuthenticated: errors.NotAuthenticated,
    exceptions.AuthenticationFailed: errors.NotAuthenticated,
    exceptions.PermissionDenied: errors.Forbidden,
    PermissionDenied: errors.Forbidden,
    exceptions.NotFound: errors.NotFound,
    Http404: errors.NotFound,
    exceptions.MethodNotAllowed: errors.MethodNotAllowed,
    exceptions.NotAcceptable: errors.NotAcceptable,
    exceptions.UnsupportedMediaType: errors.UnsupportedMediaType,
    exceptions.ParseError: BodyUnreadable,
}


def handle(exc: Exception, _context: dict[str, Any]) -> HttpResponse | None:
    """Return the response to `exc`, or None for an error of the program."""
    error = _api_error(exc)
    if error is None:
        return None
    set_rollback()
    authenticate = getattr(exc, "auth_header", None)
    return respond(error, headers={"WWW-Authenticate": authenticate} if authenticate else None)


def _api_error(exc: Exception) -> ApiError | None:
    if isinstance(exc, ApiError):
        return exc
    for kind in type(exc).__mro__:
        if kind in FRAMEWORK_ERRORS:
            return FRAMEWORK_ERRORS[kind](getattr(exc, "detail", exc))
    if outages.is_outage(exc):
        logger.warning("service_unavailable: %s", " ".join(str(exc).split()))
        return outages.Outage()
    return None


class ErrorCode(NamedTuple):
    """A code with its status and titles."""

    status: int
    code: str
    titles: str


def error_codes() -> list[ErrorCode]:
    """Return every code of the loaded modules, by status."""
    titles: dict[tuple[int, str], set[str]] = defaultdict(set)
    for kind in _kinds(ApiError):
        if hasattr(kind, "code"):
            titles[kind.status, kind.code].add(kind.title)
    return [ErrorCode(*key, "; ".join(sorted(titles[key]))) for key in sorted(titles)]


def page(request: HttpRequest) -> HttpResponse:
    """Return the page of all codes."""
    return render(request, "error_codes.html", {"codes": error_codes()})


def _kinds(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
