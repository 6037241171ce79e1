"""Admin of size samples and the announcement."""

from django.contrib import admin

from runs.deployment.models.deployment import DeckNotice, DeckSample
from runs.deployment.models.parts import DeckPart
from web.admin.read_only import ReadOnlyAdmin


@admin.register(DeckSample)
class DeckSampleAdmin(ReadOnlyAdmin):
    """One sample per minute of the last two weeks, the basis of the disk forecast."""

    list_display = ("at", "database_bytes", "wal_bytes", "disk_free_bytes", "disk_total_bytes")
    list_filter = ("at",)
    search_fields: tuple[str, ...] = ()
    run_lookup = ""
    dashboard = "/cluster"
    may_grow = True
    ordering = ("-id",)


@admin.register(DeckNotice)
class DeckNoticeAdmin(ReadOnlyAdmin):
    """The announcement shown on every page; it is set on *Cluster*."""

    list_display = ("text", "until", "set_by", "set_at", "reason")
    list_filter = ("until",)
    search_fields: tuple[str, ...] = ("text", "set_by")
    search_help_text = "A part of the text, or its author"
    run_lookup = ""
    dashboard = "/cluster"
    ordering = ("id",)


@admin.register(DeckPart)
class DeckPartAdmin(ReadOnlyAdmin):
    """Processes of the deployment and its cluster, with their last heartbeat, for an hour."""

    list_display = ("kind", "name", "proven_at", "started_at", "version", "problem")
    list_filter = ("kind",)
    run_lookup = ""
    dashboard = "/cluster"
    ordering = ("kind", "name")
    search_fields: tuple[str, ...] = ("name", "host")
    search_help_text = "A part of a name or a host"
