"""Admin of idempotency keys and unanswered pushes."""

from buffer.ingest.models import IdempotencyRecord, UnansweredPush
from web.admin.read_only import register_read_only

register_read_only(
    IdempotencyRecord, columns="key run_link created_at", ordering=("-created_at", "pk")
)
register_read_only(
    UnansweredPush,
    columns="__str__ run_link accepted_at answered_at client_left",
    ordering=("-pk",),
)
