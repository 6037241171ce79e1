"""Show what people keep beside their runs: presets and notes."""

from django.contrib import admin
from django.utils.safestring import SafeString

from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin, as_written
from runs.admin.rows import RunAdmin
from runs.models import RunNote, SavedPreset


@admin.register(SavedPreset)
class SavedPresetAdmin(ReadOnlyAdmin):
    """Saved presets, the deleted ones too."""

    list_display = ("name", "description", "access", "owner", "revision", "changed_at", "is_there")
    list_filter = ("access", ("deleted_at", admin.EmptyFieldListFilter))
    list_select_related = ("owner",)
    search_fields = ("name", "description")
    search_help_text = "Name or description of a preset"
    ordering = ("-id",)
    run_lookup = ""

    @admin.display(description="there", boolean=True)
    def is_there(self, preset: SavedPreset) -> bool:
        """Return whether one may start from it; deleted ones stay to be looked at."""
        return preset.deleted_at is None

    def view_on_site(self, row: SavedPreset) -> str | None:
        """Return the form that begins with it; None for one that is deleted."""
        return None if row.deleted_at else f"/runs/new?preset={row.name}"


@admin.register(RunNote)
class RunNoteAdmin(ReadOnlyAdmin):
    """The notes of runs, each edit as it was."""

    list_display = ("__str__", "run_link", "revision", "author", "at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-id",)
    exclude = ("text",)
    readonly_fields = ("written",)
    dashboard = "/runs/{run}"

    @admin.display(description="text")
    def written(self, note: RunNote) -> SafeString:
        """Return the text, with what could deceive a reader made visible."""
        return as_written(note.text)


RunAdmin.belonging.append(RunNote)
