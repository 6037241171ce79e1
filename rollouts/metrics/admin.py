"""Admin of metrics and annotations."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from rollouts.metrics.models.annotations import Annotation
from rollouts.metrics.models.metrics import (
    MeasureCursor,
    MetricChunk,
    MetricSample,
    MetricSeries,
    TokenTally,
)
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


@admin.register(MetricSample)
class MetricSampleAdmin(ReadOnlyAdmin):
    """Recorded metric values."""

    may_grow = True
    dashboard = "/runs/{run}/metrics"
    list_display = ("at", "run_link", "series", "step", "value")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run", "series")
    ordering = ("-id",)


@admin.register(MetricSeries)
class MetricSeriesAdmin(ReadOnlyAdmin):
    """Metric names of runs."""

    may_grow = True
    dashboard = "/runs/{run}/metrics"
    list_display = ("name", "run_link", "chunks", "packed_step", "packed_value", "packed_at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    search_fields = ("name",)
    ordering = ("-id",)


@admin.register(MetricChunk)
class MetricChunkAdmin(ReadOnlyAdmin):
    """Packed samples, without their binary columns."""

    may_grow = True
    run_lookup = "series__run"
    search_fields = ("series__run__name",)
    list_display = ("id", "series", "number", "samples", "step_min", "step_max")
    list_filter = (("series__run", AutocompleteSelectFilter),)
    list_select_related = ("series",)
    ordering = ("-id",)
    exclude = ("steps", "times", "amounts", "numbers", "by_step", "by_time", "by_amount")

    def get_queryset(self, request: HttpRequest) -> "QuerySet[MetricChunk]":
        """Return chunks without their binary columns."""
        found: QuerySet[MetricChunk] = super().get_queryset(request)
        return found.defer(*self.exclude)


@admin.register(TokenTally)
class TokenTallyAdmin(ReadOnlyAdmin):
    """Served tokens of each run."""

    list_display = ("run_link", "ordinal", "tokens")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(MeasureCursor)
class MeasureCursorAdmin(ReadOnlyAdmin):
    """Progress of the built-in measurements of each run."""

    list_display = ("run_link", "measured_at", "was_quiet", "accepted", "queued", "batch")
    list_filter = ("was_quiet", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(Annotation)
class AnnotationAdmin(ReadOnlyAdmin):
    """Chart annotations of runs, including deleted ones."""

    list_display = ("at", "text", "run_link", "step", "created_by", "deleted_at", "deleted_by")
    list_select_related = ("run",)
    list_filter = (RUN_FILTER,)
    may_grow = True
    ordering = ("-id",)
