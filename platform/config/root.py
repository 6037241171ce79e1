"""Serve the root URL: the dashboard for a browser, Atropos' greeting for a client."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from buffer.atropos.api.routes import RootView
from frontend.pages import index


def root(request: HttpRequest) -> HttpResponseBase:
    """Return the dashboard if the client accepts HTML, otherwise the API greeting."""
    if "text/html" in request.headers.get("Accept", ""):
        return index(request)
    return RootView.as_view()(request)
