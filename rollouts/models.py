"""Models of fleets and lessons."""

from rollouts.control.models import (
    FLEET_STATES,
    RECORDING_STATES,
    SLOT_STATES,
    WORKER_STATES,
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
from rollouts.curriculum.models import Curriculum, Evaluation, Lesson, LessonChange, LessonOutcome
from rollouts.diagnosis.models import RunDiagnosis
from rollouts.environments.models import DeniedEnvironment
from rollouts.metrics.models import (
    Annotation,
    MeasureCursor,
    MetricChunk,
    MetricSample,
    MetricSeries,
    TokenTally,
)

__all__ = [
    "FLEET_STATES",
    "RECORDING_STATES",
    "SLOT_STATES",
    "WORKER_STATES",
    "Annotation",
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
    "MachineSample",
    "MeasureCursor",
    "MetricChunk",
    "MetricSample",
    "MetricSeries",
    "Outage",
    "Recording",
    "RunDiagnosis",
    "TokenTally",
    "WeightsDelivery",
    "WorkerAttempt",
]
