"""Admin of followers."""

from django.contrib import admin

from buffer.followers.models import Follower
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(Follower)
class FollowerAdmin(ReadOnlyAdmin):
    """Followers and their cursors."""

    list_display = ("name", "run_link", "environment", "min_score", "cursor_id", "acked_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-id",)
