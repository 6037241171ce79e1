"""Admin pages of group marks, label names and sets; they are edited on the dashboard."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from buffer.inspect.models.digests import DigestCursor, GroupDigest
from buffer.inspect.models.marks import GroupMark, GroupSet, LabelName, SetMember
from runs.lifecycle.admin.rows import RunAdmin
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin

RunAdmin.belonging += [GroupMark, GroupSet]


@admin.register(GroupMark)
class GroupMarkAdmin(ReadOnlyAdmin):
    """Groups with a label, a pin or a note."""

    list_display = ("group_id", "run_link", "label", "is_pinned", "changed_by", "changed_at")
    list_filter = ("label", "is_pinned", RUN_FILTER)
    list_select_related = ("run",)
    search_help_text = "The id of a group"
    dashboard = "/runs/{run}/groups/{row.pk}"
    ordering = ("-pk",)
    may_grow = True


@admin.register(LabelName)
class LabelNameAdmin(ReadOnlyAdmin):
    """Names of a run's labels."""

    list_display = ("run_link", "label", "name")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-run", "label")


@admin.register(GroupSet)
class GroupSetAdmin(ReadOnlyAdmin):
    """Named sets of groups."""

    list_display = ("name", "run_link", "groups", "created_by", "created_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    search_fields = ("name", "run__name")
    search_help_text = "Name of a set or of its run"
    dashboard = "/runs/{run}/trajectories?set={row.name}"
    ordering = ("-pk",)


@admin.register(SetMember)
class SetMemberAdmin(ReadOnlyAdmin):
    """Members of group sets."""

    list_display = ("set", "group_id", "added_by", "added_at")
    list_filter = (("set", AutocompleteSelectFilter),)
    list_select_related = ("set",)
    search_help_text = "The id of a group"
    run_lookup = "set__run"
    dashboard = "/runs/{run}/groups/{row.group_id}"
    ordering = ("-pk",)
    may_grow = True

    def get_queryset(self, request: Any) -> QuerySet[Any]:
        """Return the rows with their sets and runs, for the run link."""
        return super().get_queryset(request).select_related("set__run")


@admin.register(GroupDigest)
class GroupDigestAdmin(ReadOnlyAdmin):
    """Group digests, from which lists and searches are served."""

    list_display = ("group_id", "run_link", "lesson", "worker", "truncated", "duplicates")
    list_filter = (("lesson", admin.EmptyFieldListFilter),)
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

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows without their search words."""
        return super().get_queryset(request).defer("words")


@admin.register(DigestCursor)
class DigestCursorAdmin(ReadOnlyAdmin):
    """Digest progress of each run."""

    list_display = ("run_link", "item_id", "accepted", "digested_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-pk",)
