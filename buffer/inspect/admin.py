"""Admin pages of group marks, label names and sets; they are edited on the dashboard."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet

from buffer.inspect.models.digests import DigestCursor, GroupDigest
from buffer.inspect.models.marks import GroupMark, GroupSet, LabelName, SetMember
from runs.lifecycle.admin.rows import RunAdmin
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    chosen_by_name,
    is_empty,
    register_read_only,
)

RunAdmin.belonging += [GroupMark, GroupSet]

register_read_only(
    GroupMark,
    columns="group_id run_link label is_pinned changed_by changed_at",
    filters=("label", "is_pinned", RUN_FILTER),
    search_help="The id of a group",
    ordering=("-pk",),
    dashboard="/runs/{run}/groups/{row.pk}",
    may_grow=True,
)
register_read_only(LabelName, columns="run_link label name", ordering=("-run", "label"))
register_read_only(
    GroupSet,
    columns="name run_link groups created_by created_at",
    search_fields=("name", "run__name"),
    search_help="Name of a set or of its run",
    ordering=("-pk",),
    dashboard="/runs/{run}/trajectories?set={row.name}",
)
register_read_only(
    SetMember,
    columns="set group_id added_by added_at",
    filters=(chosen_by_name("set"),),
    search_help="The id of a group",
    ordering=("-pk",),
    joins=("set__run",),
    run_lookup="set__run",
    dashboard="/runs/{run}/groups/{row.group_id}",
    may_grow=True,
)
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
