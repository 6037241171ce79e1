"""Admin of metric layouts, comparisons, annotations and metrics."""

from rollouts.metrics.models.annotations import Annotation
from rollouts.metrics.models.comparisons import Comparison
from rollouts.metrics.models.layouts import MetricLayout
from rollouts.metrics.models.metrics import (
    MeasureCursor,
    MetricChunk,
    MetricSample,
    MetricSeries,
    TokenTally,
)
from web.admin.read_only import RUN_FILTER, chosen_by_name, register_read_only

register_read_only(
    MetricLayout,
    columns="name owner run_link tag changed_at changed_by",
    filters=("tag", RUN_FILTER),
    search_fields=("name", "owner"),
    search_help="Part of a layout's name or owner",
    ordering=("name",),
)
register_read_only(
    Comparison,
    columns="name created_by created_at",
    filters=("created_at",),
    search_fields=("name", "created_by"),
    search_help="Part of a comparison's name or author",
    hidden=("remarks",),
    run_lookup="",
    dashboard="/compare",
)
register_read_only(
    Annotation,
    columns="at text run_link step created_by deleted_at deleted_by",
    may_grow=True,
)
register_read_only(
    MetricSample,
    columns="at run_link series step value",
    joins=("series",),
    dashboard="/runs/{run}/metrics",
    may_grow=True,
)
register_read_only(
    MetricSeries,
    columns="name run_link chunks packed_step packed_value packed_at",
    search_fields=("name",),
    search_help="Part of a metric's name",
    dashboard="/runs/{run}/metrics",
    may_grow=True,
)
register_read_only(
    MetricChunk,
    columns="id series number samples step_min step_max",
    filters=(chosen_by_name("series__run"),),
    search_fields=("series__run__name",),
    joins=("series",),
    hidden=("steps", "times", "amounts", "numbers", "by_step", "by_time", "by_amount"),
    run_lookup="series__run",
    may_grow=True,
)
register_read_only(TokenTally, columns="run_link ordinal tokens")
register_read_only(
    MeasureCursor,
    columns="run_link measured_at was_quiet accepted queued batch",
    filters=("was_quiet", RUN_FILTER),
)
