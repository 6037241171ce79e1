"""Admin of capture sessions and their calls."""

from buffer.capture.models import CapturedCall, CaptureSession
from web.admin.read_only import RUN_FILTER, chosen_by_name, register_read_only

register_read_only(
    CaptureSession,
    columns="name run_link state calls size_bytes score changed_at",
    filters=("state", RUN_FILTER),
    search_fields=("name", "run__name"),
    search_help="Name of a session or of its run",
    ordering=("-changed_at",),
)
# The content of a call is in the resulting group.
register_read_only(
    CapturedCall,
    columns="session number key at",
    filters=(chosen_by_name("session"),),
    search_fields=("session__name",),
    search_help="Name of a session",
    joins=("session",),
    hidden=("content",),
    run_lookup="",
)
