"""Admin of segments."""

from django.contrib import admin

from buffer.items.admin import RunlessAdmin
from buffer.payloads.models import Segment


@admin.register(Segment)
class SegmentAdmin(RunlessAdmin):
    """Payload segments and their lifecycle."""

    list_display = (
        "number",
        "opened_at",
        "sealed_at",
        "dropped_at",
        "cleared_at",
        "items",
        "size_bytes",
    )
    list_filter = (
        ("sealed_at", admin.EmptyFieldListFilter),
        ("dropped_at", admin.EmptyFieldListFilter),
    )
    ordering = ("-number",)
