"""Admin of segments."""

from buffer.payloads.models import Segment
from web.admin.read_only import is_empty, register_read_only

register_read_only(
    Segment,
    columns="number opened_at sealed_at dropped_at cleared_at items size_bytes",
    filters=(is_empty("sealed_at"), is_empty("dropped_at")),
    ordering=("-number",),
    run_lookup="",
)
