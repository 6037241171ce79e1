"""Admin of policy versions and weights commands."""

from runs.lifecycle.models import PolicyVersion
from runs.weights.models import WeightsCommand
from web.admin.read_only import RUN_FILTER, register_read_only

register_read_only(
    PolicyVersion,
    columns="__str__ run_link epoch step size_bytes published_at",
    filters=(RUN_FILTER, "published_at"),
    search_fields=("run__name", "sha256"),
    hidden=("file",),
    dashboard="/runs/{run}/weights",
)
register_read_only(
    WeightsCommand,
    columns="at run_link number kind pinned_step actor reason",
    filters=("kind", RUN_FILTER),
    dashboard="/runs/{run}/weights",
)
