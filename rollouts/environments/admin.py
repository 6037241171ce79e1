"""Admin of denied environments."""

from rollouts.environments.models import DeniedEnvironment
from web.admin.read_only import register_read_only

register_read_only(
    DeniedEnvironment,
    columns="spec reason denied_by denied_at",
    filters=("denied_at",),
    search_fields=("spec", "denied_by"),
    search_help="Part of a spec or of the administrator's name",
    ordering=("spec",),
    run_lookup="",
    dashboard="/environments",
)
