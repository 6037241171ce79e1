"""Route the URLs of the dashboard to its single page, and those of the guide to its files."""

from typing import Final

from django.urls import path
from django.views.generic import RedirectView

from frontend import guide
from frontend.pages import index

# Pages of earlier versions, and what shows the same today.
_MOVED: Final = {
    "runs/<str:run>/pipeline": "/runs/%(run)s/fleet",
    "runs/<str:run>/episodes": "/runs/%(run)s/trajectories?kind=episode",
    "runs/<str:run>/evaluations": "/runs/%(run)s/curriculum",
    "projects": "/runs",
    "projects/<str:project>": "/runs?q=project:%(project)s",
}

urlpatterns = [
    path("login", index, name="login"),
    path("runs", index, name="runs"),
    *(
        path(old, RedirectView.as_view(url=new, query_string="?" not in new))
        for old, new in _MOVED.items()
    ),
    path("runs/<path:place>", index, name="run"),
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
