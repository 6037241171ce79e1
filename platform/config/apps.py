"""Django app of the project: its checks, its commands, and what the apps read from each other."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """Parts of the project that belong to no single app."""

    name = "config"

    def ready(self) -> None:
        """Register the check of unsafe settings, and fill the tables of the apps."""
        from config import binding, readers  # noqa: F401 binding registers a check

        readers.fill()
