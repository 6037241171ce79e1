"""Admin of saved objects."""

from django.contrib import admin
from django.utils.safestring import SafeString

from runs.saved.models import SavedObject
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin, as_written


@admin.register(SavedObject)
class SavedObjectAdmin(ReadOnlyAdmin):
    """Presets and views, including deleted ones."""

    list_display = (
        *("name", "kind", "access", "run_link", "tag", "author"),
        *("revision", "changed_at", "is_available"),
    )
    list_filter = ("kind", "access", ("deleted_at", admin.EmptyFieldListFilter), RUN_FILTER)
    list_select_related = ("run", "owner")
    search_fields: tuple[str, ...] = ("name", "author", "text")
    search_help_text = "Part of a name, an author or a text"
    ordering = ("-id",)
    exclude = ("text",)
    readonly_fields = ("written",)

    @admin.display(description="available", boolean=True)
    def is_available(self, row: SavedObject) -> bool:
        """Return whether the object is usable; deleted ones remain listed."""
        return row.deleted_at is None

    @admin.display(description="text")
    def written(self, row: SavedObject) -> SafeString:
        """Return the text with visible control characters."""
        return as_written(row.text)

    def view_on_site(self, row: SavedObject) -> str | None:
        """Return the page that uses an object; None for views and deleted objects."""
        if row.deleted_at is not None or row.kind != "preset":
            return None
        return f"/runs/new?preset={row.name}"
