"""Answer the root URL: the dashboard for a browser, Atropos' greeting for a client."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from buffer.atropos.api.routes import RootView
from frontend.pages import index


def root(request: HttpRequest) -> HttpResponseBase:
    """Show the dashboard to whoever accepts HTML, and the API to everyone else."""
    if "text/html" in request.headers.get("Accept", ""):
        return index(request)
    return RootView.as_view()(request)
