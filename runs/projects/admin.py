"""Admin of projects."""

from runs.projects.models import Project
from web.admin.read_only import is_empty, register_read_only

register_read_only(
    Project,
    columns="name title preset tags created_by created_at changed_at archived_at",
    filters=(is_empty("archived_at"),),
    search_fields=("name", "title"),
    search_help="Part of a name or a title",
    ordering=("name",),
    run_lookup="",
    dashboard="/runs?q=project:{row.name}",
)
