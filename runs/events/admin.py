"""Admin of events."""

from runs.events.models import RunEvent
from web.admin.read_only import RUN_FILTER, register_read_only

register_read_only(
    RunEvent,
    columns="at run_link level kind message actor reason",
    filters=("level", RUN_FILTER),
    dashboard="/audit?run={run}",
    may_grow=True,
)
