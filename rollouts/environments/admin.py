"""Admin of denied environments."""

from django.contrib import admin

from rollouts.environments.models import DeniedEnvironment
from web.admin.read_only import ReadOnlyAdmin


@admin.register(DeniedEnvironment)
class DeniedEnvironmentAdmin(ReadOnlyAdmin):
    """Specs denied to new runs."""

    dashboard = "/environments"
    list_display = ("spec", "reason", "denied_by", "denied_at")
    list_filter = ("denied_at",)
    search_fields: tuple[str, ...] = ("spec", "denied_by")
    search_help_text = "Part of a spec or of the administrator's name"
    ordering = ("spec",)
