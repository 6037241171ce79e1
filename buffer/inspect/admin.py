"""Admin pages of group marks and label names; they are edited on the dashboard."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet

from buffer.inspect.models import DigestCursor, GroupDigest, GroupMark, LabelName
from runs.lifecycle.admin import RunAdmin
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    is_empty,
    register_read_only,
)

RunAdmin.belonging += [GroupMark]

register_read_only(
    GroupMark,
    columns="group_id run_link label changed_by changed_at",
    filters=("label", RUN_FILTER),
    search_help="The id of a group",
    ordering=("-pk",),
    dashboard="/runs/{run}/groups/{row.pk}",
    may_grow=True,
)
register_read_only(LabelName, columns="run_link label name", ordering=("-run", "label"))
register_read_only(DigestCursor, columns="run_link item_id accepted digested_at", ordering=("-pk",))


@admin.register(GroupDigest)
class GroupDigestAdmin(ReadOnlyAdmin):
    """Group digests, from which lists and searches are served."""

    list_display = ("group_id", "run_link", "lesson", "worker", "truncated", "duplicates")
    list_filter = (is_empty("lesson"),)
    search_help_text = "The id of a group"
    dashboard = "/runs/{run}/groups/{row.pk}"
    list_select_related = ("run",)
    ordering = ("-pk",)
    exclude = ("words",)
    may_grow = True

    def rows_of_runs(self, queryset: QuerySet[Any], runs: list[int]) -> QuerySet[Any]:
        """Return no rows: no index orders a run's digests; use the list of its groups."""
        del runs
        return queryset.none()
