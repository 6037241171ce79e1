"""Route every URL of the dashboard to its single page."""

from django.urls import path

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
    path("guide", index, name="guide"),
    path("guide/<path:place>", index, name="guide-page"),
]
