"""Show fleets in the admin: to look at, not to change."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from rollouts.models import EnvSlot, EpisodeWindow, Fleet, FleetWorker, MetricSample


class ReadOnly(ModelAdmin):
    """A page without a way to change anything: fleets and trainers write these rows."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False


@admin.register(Fleet)
class FleetAdmin(ReadOnly):
    """Fleets, one per run."""

    list_display = ["run", "observed", "observed_at", "attempt", "actor_name", "reason"]
    list_filter = ["observed"]
    list_select_related = ["run"]
    search_fields = ["run__name", "actor_name"]


@admin.register(FleetWorker)
class FleetWorkerAdmin(ReadOnly):
    """Rollout workers."""

    list_display = [
        *("fleet", "index", "state", "heartbeat_at", "env_steps", "env_steps_per_second"),
        *("active_step", "restarts", "verdict"),
    ]
    list_filter = ["state"]
    list_select_related = ["fleet"]
    search_fields = ["fleet__run__name"]


@admin.register(EnvSlot)
class EnvSlotAdmin(ReadOnly):
    """Environments of workers."""

    list_display = ["worker", "slot", "state", "pid", "episodes", "restarts", "error"]
    list_filter = ["state"]
    list_select_related = ["worker"]
    search_fields = ["worker__fleet__run__name"]


@admin.register(EpisodeWindow)
class EpisodeWindowAdmin(ReadOnly):
    """Windows of ended episodes."""

    list_display = [
        *("run", "at", "worker", "mode", "count", "return_mean", "recent_return_mean"),
        *("length_mean", "policy_step"),
    ]
    list_filter = ["mode"]
    list_select_related = ["run"]
    search_fields = ["run__name", "environment"]


@admin.register(MetricSample)
class MetricSampleAdmin(ReadOnly):
    """Numbers that trainers wrote down."""

    list_display = ["run", "name", "step", "value", "at"]
    list_select_related = ["run"]
    search_fields = ["run__name", "name"]
