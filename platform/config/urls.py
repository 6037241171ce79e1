"""URL routes of the project."""

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from config import admin_login, error_codes, health
from config.api_document import ApiDocument
from config.cluster.retention import RetentionView
from config.cluster.view import ClusterView, ServerView
from config.root import root
from runs.access.api.permissions import Anyone
from runs.access.api.sessions import OneTimeLogin

handler400 = "config.error_pages.bad_request"
handler404 = "config.error_pages.not_found"
handler500 = "config.error_pages.server_error"

urlpatterns = [
    path("healthz/live", health.live),
    path("healthz/ready", health.ready),
    path("metrics", health.metrics),
    path("openapi.json", ApiDocument.as_view(), name="schema"),
    path("docs/errors", error_codes.page),
    path("docs", SpectacularSwaggerSplitView.as_view(permission_classes=[Anyone])),
    path("login/once", OneTimeLogin.as_view()),
    path("admin/login/", admin_login.sign_in),
    path("admin/password_change/", admin_login.change_password),
    path("admin/", admin.site.urls),
    path("api/v1/cluster", ClusterView.as_view()),
    path("api/v1/server", ServerView.as_view()),
    path("api/v1/server/retention", RetentionView.as_view()),
    path("api/v1/", include("runs.urls")),
    path("api/v1/", include("buffer.urls")),
    path("api/v1/", include("rollouts.urls")),
    path("api/v1/", include("frontend.api_urls")),
    # The Atropos trajectory API: at the root for the default run, and below a run's name.
    path("atropos/<slug:run>/", include("buffer.atropos.urls")),
    path("", root),
    path("", include("buffer.atropos.urls")),
    # The dashboard handles all other paths.
    path("", include("frontend.urls")),
]
