"""Models of fleets and lessons."""

from rollouts.models.annotations import Annotation
from rollouts.models.attempts import WorkerAttempt
from rollouts.models.comparisons import Comparison
from rollouts.models.deliveries import WeightsDelivery
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
    Recording,
)
from rollouts.models.layouts import MetricLayout
from rollouts.models.lessons import (
    Curriculum,
    Evaluation,
    Lesson,
    LessonChange,
    LessonOutcome,
)
from rollouts.models.machines import MachineCordon
from rollouts.models.metrics import (
    MeasureCursor,
    MetricChunk,
    MetricSample,
    MetricSeries,
    TokenTally,
)
from rollouts.models.verdicts import DeniedEnvironment

__all__ = [
    "FLEET_STATES",
    "RECORDING_STATES",
    "SLOT_STATES",
    "WORKER_STATES",
    "Annotation",
    "Comparison",
    "Curriculum",
    "DeniedEnvironment",
    "EnvSlot",
    "EpisodeWindow",
    "Evaluation",
    "Fleet",
    "FleetWorker",
    "Lesson",
    "LessonChange",
    "LessonOutcome",
    "LogRequest",
    "MachineCordon",
    "MeasureCursor",
    "MetricChunk",
    "MetricLayout",
    "MetricSample",
    "MetricSeries",
    "Recording",
    "TokenTally",
    "WeightsDelivery",
    "WorkerAttempt",
]
