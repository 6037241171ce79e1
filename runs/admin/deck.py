"""Show how large the deck was, and what everybody is told."""

from django.contrib import admin

from runs.admin.read_only import ReadOnlyAdmin
from runs.models import DeckNotice, DeckSample


@admin.register(DeckSample)
class DeckSampleAdmin(ReadOnlyAdmin):
    """One a minute, of the last two weeks; what is foretold of the disk comes from these."""

    list_display = ("at", "database_bytes", "wal_bytes", "disk_free_bytes", "disk_total_bytes")
    list_filter = ("at",)
    search_fields: tuple[str, ...] = ()
    run_lookup = ""
    dashboard = "/cluster"
    may_grow = True
    ordering = ("-id",)


@admin.register(DeckNotice)
class DeckNoticeAdmin(ReadOnlyAdmin):
    """What stands above every page; it is set on *Cluster*."""

    list_display = ("text", "until", "set_by", "set_at", "reason")
    list_filter = ("until",)
    search_fields: tuple[str, ...] = ("text", "set_by")
    search_help_text = "A part of the words, or who wrote them"
    run_lookup = ""
    dashboard = "/cluster"
    ordering = ("id",)
