"""Admin of saved presets."""

from django.contrib import admin

from runs.config.models import SavedPreset
from web.admin.read_only import ReadOnlyAdmin, is_empty


@admin.register(SavedPreset)
class SavedPresetAdmin(ReadOnlyAdmin):
    """Saved presets, including deleted ones."""

    list_display = ("name", "description", "access", "owner", "revision", "changed_at", "is_there")
    list_filter = ("access", is_empty("deleted_at"))
    list_select_related = ("owner",)
    search_fields = ("name", "description")
    search_help_text = "Name or description of a preset"
    ordering = ("-id",)
    run_lookup = ""

    @admin.display(description="available", boolean=True)
    def is_there(self, preset: SavedPreset) -> bool:
        """Return whether the preset is usable; deleted ones remain listed."""
        return preset.deleted_at is None

    def view_on_site(self, row: SavedPreset) -> str | None:
        """Return the launch form with this preset; None for a deleted one."""
        return None if row.deleted_at else f"/runs/new?preset={row.name}"
