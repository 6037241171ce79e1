"""Admin of capture sessions."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from buffer.capture.models import CapturedCall, CaptureSession
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(CaptureSession)
class CaptureSessionAdmin(ReadOnlyAdmin):
    """Sessions captured by a proxy."""

    list_display = ("name", "run_link", "state", "calls", "size_bytes", "score", "changed_at")
    list_filter = ("state", RUN_FILTER)
    list_select_related = ("run",)
    search_fields = ("name", "run__name")
    search_help_text = "Name of a session or of its run"
    ordering = ("-changed_at",)


@admin.register(CapturedCall)
class CapturedCallAdmin(ReadOnlyAdmin):
    """Calls of captured sessions; their content is in the resulting group."""

    list_display = ("session", "number", "key", "at")
    list_filter = (("session", AutocompleteSelectFilter),)
    list_select_related = ("session",)
    search_fields = ("session__name",)
    search_help_text = "Name of a session"
    ordering = ("-id",)
    exclude = ("content",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[CapturedCall]:
        """Return the rows without their content."""
        return super().get_queryset(request).defer("content")
