"""Admin of metrics and annotations."""

from rollouts.metrics.models import (
    Annotation,
    MeasureCursor,
    MetricChunk,
    MetricSample,
    MetricSeries,
    TokenTally,
)
from web.admin.read_only import RUN_FILTER, chosen_by_name, register_read_only

register_read_only(
    Annotation, columns="at text run_link step created_by deleted_at deleted_by", may_grow=True
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
