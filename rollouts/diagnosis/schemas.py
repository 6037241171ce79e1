"""Schemas of the data flow through a run, and its diagnosis."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from rolldeck.wire import StageTiming
from rollouts.diagnosis.rules.diagnosis import Kind
from rollouts.diagnosis.rules.flow import PipelineStage, Stage


class Cause(Struct, frozen=True, kw_only=True):
    """One cause that harms or limits a run."""

    kind: Kind
    """Kind of the cause; its thresholds have hysteresis."""
    summary: str
    stage: Stage | None
    """Affected stage; null if there is none or it is unknown."""
    evidence: list[str]
    change: str
    """Action to take; empty if there is none."""
    since: datetime | None
    """Time from which the run has had this cause; null if it is not recorded yet."""


class PipelineDiagnosis(Cause, frozen=True, kw_only=True):
    """The most harmful cause, and the further ones."""

    further: list[Cause]
    """Further causes, the most harmful first."""
    run_status: str
    """Status of the run at that time. A page that shows another status shows no diagnosis."""


class BatchTimes(Struct, frozen=True, kw_only=True):
    """Timings of the newest batches; null if none reached the stage."""

    in_transit: StageTiming | None
    """From the lease of a batch to its last byte at the trainer."""
    with_trainer: StageTiming | None
    """From the last byte to the acknowledgement."""


class Pipeline(Struct, frozen=True, kw_only=True):
    """Data flow through a run in the last minute."""

    unit: Literal["fragments", "sequences"]
    workers: int
    """Running workers that have reported within seconds."""
    stages: list[PipelineStage]
    """In the order of the data flow; for an outside run only those visible to the server."""
    diagnosis: PipelineDiagnosis
    batches: BatchTimes
    arriving: float | None
    """Items per second into the queue."""
    handed_out: float | None
    """Items per second out of the queue."""
    queued: int
    pause_above: float | None
    batch_size: int | None
    age_seconds: float | None
    """Measured mean time between an item's arrival and its batch."""
    age_versions: float | None
    """Mean number of versions between an item's policy and the run's policy at serving."""
    shares: dict[str, float]
    """Mean share of the workers' time by stage or wait."""


class DiagnosisList(Struct, frozen=True, kw_only=True):
    """Diagnosis of each run, by run id."""

    results: dict[int, PipelineDiagnosis]
