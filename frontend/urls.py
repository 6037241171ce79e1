"""Route the URLs of the dashboard to its single page, and those of the guide to its files."""

from django.urls import path
from django.views.generic import RedirectView

from frontend import guide
from frontend.pages import index

urlpatterns = [
    path("login", index, name="login"),
    path("runs", index, name="runs"),
    path("runs/<path:place>", index, name="run"),
    path("projects", index, name="projects"),
    path("projects/<str:place>", index, name="project"),
    path("cluster", index, name="cluster"),
    path("settings", index, name="settings"),
    path("environments", index, name="environments"),
    path("trajectories", index, name="trajectories"),
    path("alerts", index, name="alerts"),
    path("compare", index, name="compare"),
    path("tokens", index, name="tokens"),
    path("guide", RedirectView.as_view(url="/guide/"), name="guide"),
    path("guide/", guide.page, name="guide-home"),
    path("guide/<path:place>", guide.page, name="guide-page"),
]
