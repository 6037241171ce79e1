"""Admin of fleets, workers, recordings and logs."""

from typing import ClassVar

from django.contrib import admin
from django.db.models import Model
from django.utils.html import format_html
from django.utils.safestring import SafeString

from rollouts.control.models import (
    EnvSlot,
    EpisodeWindow,
    Fleet,
    FleetWorker,
    LogRequest,
    MachineCordon,
    MachineSample,
    Outage,
    Recording,
    WeightsDelivery,
    WorkerAttempt,
)
from rollouts.control.queries.recordings import recording_preview
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    as_written,
    chosen_by_name,
    is_empty,
    linked,
    links_to_lists,
    register_read_only,
    rounded,
)

register_read_only(
    WorkerAttempt,
    columns="worker run_link started_at ended_at node pid env_steps fragments_sent lost_steps "
    "unsent_fragments reason",
    filters=(chosen_by_name("fleet__run"),),
    ordering=("-pk",),
    run_lookup="fleet__run",
    dashboard="/runs/{run}/fleet?worker={row.worker}",
)
register_read_only(
    EpisodeWindow,
    columns="at run_link environment worker mode count return_mean length_mean terminated "
    "truncated aborted policy_step",
    rounded_columns="return_mean length_mean",
    filters=("mode", RUN_FILTER),
    dashboard="/runs/{run}/trajectories?spread=return",
    may_grow=True,
)
register_read_only(
    Outage,
    columns="began_at run_link lesson cause reason probes probe_at ended_at end_reason",
    filters=("cause", RUN_FILTER),
    dashboard="/runs/{run}/fleet",
)
register_read_only(
    WeightsDelivery,
    columns="run_link epoch step worker announced_at staged_at active_at",
    filters=(chosen_by_name("fleet__run"),),
    run_lookup="fleet__run",
    dashboard="/runs/{run}/weights",
    may_grow=True,
)
register_read_only(
    MachineCordon,
    columns="host node reason cordoned_by cordoned_at",
    filters=("cordoned_at",),
    search_fields=("host", "node", "cordoned_by"),
    search_help="Part of a machine's name, its id or the administrator's name",
    ordering=("node",),
    run_lookup="",
    dashboard="/cluster",
)
register_read_only(
    MachineSample,
    columns="at node cpu_cores cpus memory_bytes memory_total_bytes gpus gpu_percent "
    "gpu_memory_bytes gpu_memory_total_bytes",
    rounded_columns="cpu_cores gpu_percent",
    filters=("at",),
    search_fields=("node",),
    search_help="Part of a machine's id",
    ordering=("-pk",),
    run_lookup="",
    dashboard="/cluster",
    may_grow=True,
)


@admin.register(Fleet)
class FleetAdmin(ReadOnlyAdmin):
    """Fleets, one per run, with links to related rows."""

    belonging: ClassVar[list[type[Model]]] = [Recording, LogRequest, EpisodeWindow]
    list_display = (
        *("run_link", "observed", "observed_at", "attempt", "env_steps_total", "actor_name"),
        "reason",
    )
    list_filter = ("observed", RUN_FILTER)
    dashboard = "/runs/{run}/fleet"
    list_select_related = ("run",)
    ordering = ("-observed_at", "-id")
    readonly_fields = ("related_links",)

    @admin.display(description="related")
    def related_links(self, fleet: Fleet) -> SafeString:
        """Return links to the workers of the fleet, and to related rows of its run."""
        workers = links_to_lists(FleetWorker, WorkerAttempt, fleet__id__exact=fleet.pk)
        return format_html(
            "{} · {}", workers, links_to_lists(*self.belonging, run__id__exact=fleet.run_id)
        )


@admin.register(FleetWorker)
class FleetWorkerAdmin(ReadOnlyAdmin):
    """Rollout workers."""

    list_display = (
        *("index", "run_link", "state", "heartbeat_at", "node", rounded("env_steps_per_second")),
        *("active_step", "to_send", "restarts", "reason", "time_use"),
    )
    list_filter = ("state", chosen_by_name("fleet__run"))
    list_select_related = ("fleet__run",)
    ordering = ("-fleet", "index")
    run_lookup = "fleet__run"
    run_link = linked("run", run_lookup)
    dashboard = "/runs/{run}/fleet?worker={row.index}"
    readonly_fields = ("related_links",)

    @admin.display(description="related")
    def related_links(self, worker: FleetWorker) -> SafeString:
        """Return a link to the worker's slots."""
        return links_to_lists(EnvSlot, worker__id__exact=worker.pk)


@admin.register(EnvSlot)
class EnvSlotAdmin(ReadOnlyAdmin):
    """Environments of workers."""

    list_display = (
        *("slot", "worker_link", "run_link", "state", "pid", "episodes", "restarts", "error"),
    )
    list_filter = ("state", chosen_by_name("worker__fleet__run"))
    list_select_related = ("worker__fleet__run",)
    ordering = ("-worker", "slot")
    run_lookup = "worker__fleet__run"
    run_link = linked("run", run_lookup)
    dashboard = "/runs/{run}/fleet?worker={row.worker.index}"
    worker_link = linked("worker", "worker")


@admin.register(Recording)
class RecordingAdmin(ReadOnlyAdmin):
    """Requested recordings of episodes, with a link to the file or its text."""

    list_display = (
        *("requested_at", "run_link", "state", "worker", "slot", rounded("episode_return")),
        *("episode_length", "outcome", "policy_step", "media_type", "size_bytes"),
        *("requested_by", "reason"),
    )
    list_filter = ("state", "outcome", "media_type", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-requested_at", "id")
    dashboard = "/runs/{run}/fleet"
    readonly_fields = ("recording",)

    @admin.display(description="recording")
    def recording(self, row: Recording) -> SafeString | str:
        """Return a link to the recording, and the beginning of a text recording."""
        if row.state != "ready":
            return "-"
        address = f"/api/v1/runs/{row.run.name}/recordings/{row.pk}/content"
        link = format_html('<a href="{}">{}</a>', address, row.media_type)
        return format_html("{}{}", link, as_written(recording_preview(row)))


@admin.register(LogRequest)
class LogRequestAdmin(ReadOnlyAdmin):
    """Requested logs and their last read lines."""

    list_display = (
        *("asked_at", "run_link", "worker", "slot", "answered_at", "lines", "node", "path"),
        "note",
    )
    list_filter = (is_empty("answered_at"), RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-asked_at", "id")
    dashboard = "/runs/{run}/logs"
    exclude = ("content", "request")
    readonly_fields = ("text",)

    @admin.display(description="lines")
    def text(self, row: LogRequest) -> SafeString:
        """Return the end of the log."""
        return as_written("\n".join(row.content))
