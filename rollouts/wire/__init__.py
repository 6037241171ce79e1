"""Shape what the API of this app takes and gives, besides the messages of fleets."""

from rollouts.wire.attempts import AttemptRow, Attempts
from rollouts.wire.fleets import (
    EpisodeMeans,
    EpisodeRow,
    Episodes,
    EpisodeSummary,
    FleetLog,
    FleetState,
    Metric,
    MetricRow,
    Metrics,
    MetricsPush,
    MetricsReceipt,
    RecordingRequest,
    RecordingRow,
    Recordings,
    SlotState,
    TaskEpisodes,
    WorkerState,
)

__all__ = [
    "AttemptRow",
    "Attempts",
    "EpisodeMeans",
    "EpisodeRow",
    "EpisodeSummary",
    "Episodes",
    "FleetLog",
    "FleetState",
    "Metric",
    "MetricRow",
    "Metrics",
    "MetricsPush",
    "MetricsReceipt",
    "RecordingRequest",
    "RecordingRow",
    "Recordings",
    "SlotState",
    "TaskEpisodes",
    "WorkerState",
]
