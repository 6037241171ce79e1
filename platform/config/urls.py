"""URL routes of the project."""

from django.contrib import admin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from buffer.atropos.api.routes import RootView
from config import admin_site, errors, monitoring
from config.api_document import ApiDocument
from config.cluster.views import ClusterView, RetentionView, ServerView
from frontend.pages import index
from runs.access.api.permissions import Anyone
from runs.access.api.sessions import OneTimeLogin


def root(request: HttpRequest) -> HttpResponseBase:
    """Return the dashboard if the client accepts HTML, otherwise the API greeting."""
    if "text/html" in request.headers.get("Accept", ""):
        return index(request)
    return RootView.as_view()(request)


handler400 = "config.errors.bad_request"
handler404 = "config.errors.not_found"
handler500 = "config.errors.server_error"

urlpatterns = [
    # config.middleware answers /healthz/live and /healthz/ready.
    path("metrics", monitoring.metrics),
    path("openapi.json", ApiDocument.as_view(), name="schema"),
    path("docs/errors", errors.page),
    path("docs", SpectacularSwaggerSplitView.as_view(permission_classes=[Anyone])),
    path("login/once", OneTimeLogin.as_view()),
    path("admin/login/", admin_site.sign_in),
    path("admin/password_change/", admin_site.change_password),
    path("admin/", admin.site.urls),
    path("api/v1/cluster", ClusterView.as_view()),
    path("api/v1/server", ServerView.as_view()),
    path("api/v1/server/retention", RetentionView.as_view()),
    path("api/v1/", include("runs.urls")),
    path("api/v1/", include("buffer.urls")),
    path("api/v1/", include("rollouts.urls")),
    # The Atropos trajectory API: at the root for the default run, and below a run's name.
    path("atropos/<slug:run>/", include("buffer.atropos.urls")),
    path("", root),
    path("", include("buffer.atropos.urls")),
    # The dashboard handles all other paths.
    path("", include("frontend.urls")),
]
