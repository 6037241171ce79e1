"""What the platform remembers about fleets."""

from rollouts.models.attempts import WorkerAttempt
from rollouts.models.fleets import (
    FLEET_STATES,
    RECORDING_STATES,
    SLOT_STATES,
    WORKER_STATES,
    EnvSlot,
    EpisodeWindow,
    Fleet,
    FleetWorker,
    LogRequest,
    MetricSample,
    Recording,
)

__all__ = [
    "FLEET_STATES",
    "RECORDING_STATES",
    "SLOT_STATES",
    "WORKER_STATES",
    "EnvSlot",
    "EpisodeWindow",
    "Fleet",
    "FleetWorker",
    "LogRequest",
    "MetricSample",
    "Recording",
    "WorkerAttempt",
]
