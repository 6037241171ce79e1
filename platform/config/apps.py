"""Django app of the project: registers its checks and commands."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """Parts of the project that belong to no single app."""

    name = "config"

    def ready(self) -> None:
        """Register the check of unsafe settings and the cluster parts of live pages."""
        from config import binding  # noqa: F401 registers a check
        from config.cluster.status import cluster_admin_part, cluster_part
        from runs.deployment.services.global_topics import CLUSTER, CLUSTER_ADMIN
        from web.live.parts import register_global_part

        register_global_part("cluster", cluster_part, topic=CLUSTER)
        register_global_part("cluster", cluster_admin_part, topic=CLUSTER_ADMIN)
