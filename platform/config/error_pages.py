"""Error responses outside of API views, in the format of the requested route.

Django calls these handlers for unknown paths, and for errors in middleware, sessions and views.
"""

import sys
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template import loader
from django.views import defaults

from buffer.atropos.api import view
from buffer.atropos.urls import NAMES as ATROPOS_NAMES
from config.api_errors import NOT_FOUND, OUTAGE, ApiError, respond
from frontend.pages import index
from web import outages


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Respond to a path that no route matches."""
    if request.path.startswith("/api/"):
        return respond(NOT_FOUND, detail=f"no route matches {request.path}")
    if request.path.startswith("/atropos/"):
        return view.json_response({"detail": f"no route matches {request.path}"}, status=404)
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
    return defaults.bad_request(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Respond to an unhandled error: 503 for an outage, otherwise 500."""
    if outages.is_outage(sys.exc_info()[1]):
        return unavailable(request)
    if request.path.startswith("/api/"):
        return respond(ApiError(500, "internal", "Internal error"), detail="see the server's log")
    if _is_atropos(request):
        return view.json_response({"detail": "Internal Server Error"}, status=500)
    return defaults.server_error(request)


def unavailable(request: HttpRequest) -> HttpResponse:
    """Respond 503 with `Retry-After`: problem details, Atropos' JSON or a page."""
    if request.path.startswith("/api/"):
        return respond(OUTAGE, detail=outages.DETAIL)
    if _is_atropos(request):
        return view.unavailable()
    page = loader.get_template("503.html").render()
    response = HttpResponse(page, status=HTTPStatus.SERVICE_UNAVAILABLE)
    response["Retry-After"] = str(outages.RETRY_AFTER_SECONDS)
    return response


def _is_read(request: HttpRequest) -> bool:
    return request.method == "GET" and "text/html" in request.headers.get("Accept", "")


def _is_atropos(request: HttpRequest) -> bool:
    path = request.path
    if path == "/":  # the dashboard for a browser, Atropos' greeting for a client
        return not _is_read(request)
    return path.startswith("/atropos/") or path[1:] in ATROPOS_NAMES
