"""Django app of the dashboard."""

from django.apps import AppConfig


class FrontendConfig(AppConfig):
    """The dashboard: one page, built from `frontend/src`."""

    name = "frontend"
    verbose_name = "Dashboard"
