"""Admin of run notes."""

from django.contrib import admin
from django.utils.safestring import SafeString

from runs.lifecycle.admin.rows import RunAdmin
from runs.lifecycle.models.notes import RunNote
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin, as_written


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
