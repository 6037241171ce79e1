"""Admin of saved presets and run notes."""

from django.contrib import admin
from django.utils.safestring import SafeString

from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin, as_written
from runs.admin.rows import RunAdmin
from runs.models import RunNote, SavedPreset


@admin.register(SavedPreset)
class SavedPresetAdmin(ReadOnlyAdmin):
    """Saved presets, including deleted ones."""

    list_display = ("name", "description", "access", "owner", "revision", "changed_at", "is_there")
    list_filter = ("access", ("deleted_at", admin.EmptyFieldListFilter))
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


@admin.register(RunNote)
class RunNoteAdmin(ReadOnlyAdmin):
    """Revisions of run notes."""

    list_display = ("__str__", "run_link", "revision", "author", "at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-id",)
    exclude = ("text",)
    readonly_fields = ("written",)
    dashboard = "/runs/{run}"

    @admin.display(description="text")
    def written(self, note: RunNote) -> SafeString:
        """Return the text with visible control characters."""
        return as_written(note.text)


RunAdmin.belonging.append(RunNote)
