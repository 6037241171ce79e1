"""Register the project's own checks and commands with Django."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """What belongs to no single app."""

    name = "config"

    def ready(self) -> None:
        """Let `manage.py check` know of unsafe settings."""
        from config import binding  # noqa: F401 registers a check
