"""Register the project's own checks and commands with Django."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """What belongs to no single app."""

    name = "config"

    def ready(self) -> None:
        """Let `manage.py check` know of unsafe settings, and live pages of the deck's parts."""
        from config import binding  # noqa: F401 registers a check
        from config.cluster.reading import cluster_admin_part, cluster_part
        from runs import live
        from runs.live.deck_topics import CLUSTER, CLUSTER_ADMIN

        live.register_deck_part("cluster", cluster_part, topic=CLUSTER)
        live.register_deck_part("cluster", cluster_admin_part, topic=CLUSTER_ADMIN)
