"""Admin of the identity, the announcement, processes and their exits."""

from runs.deployment.models import Deployment, PartExit, ProcessHeartbeat, ServerNotice
from web.admin.read_only import register_read_only

register_read_only(
    ServerNotice,
    columns="text until set_by set_at reason",
    filters=("until",),
    search_fields=("text", "set_by"),
    search_help="A part of the text, or its author",
    ordering=("id",),
    run_lookup="",
    dashboard="/cluster",
)
register_read_only(
    ProcessHeartbeat,
    columns="kind name confirmed_at started_at version problem",
    filters=("kind",),
    search_fields=("name", "host"),
    search_help="A part of a name or a host",
    ordering=("kind", "name"),
    run_lookup="",
    dashboard="/cluster",
)
register_read_only(
    PartExit,
    columns="part host exits first_at last_at reason",
    filters=("part",),
    search_fields=("part", "host"),
    search_help="A part's name, or a part of a host",
    ordering=("part", "host"),
    run_lookup="",
    dashboard="/cluster",
)
register_read_only(
    Deployment,
    columns="identity created_at places",
    filters=("created_at",),
    ordering=("id",),
    run_lookup="",
    dashboard="/cluster",
)
