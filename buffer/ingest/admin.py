"""Admin of idempotency keys and unanswered pushes."""

from django.contrib import admin

from buffer.ingest.models import IdempotencyRecord, UnansweredPush
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(ReadOnlyAdmin):
    """Idempotency keys of pushes."""

    list_display = ("key", "run_link", "created_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-created_at", "pk")


@admin.register(UnansweredPush)
class UnansweredPushAdmin(ReadOnlyAdmin):
    """Pushes whose client may not have received the answer."""

    list_display = ("__str__", "run_link", "sender", "accepted_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-pk",)
