"""Shape how data flows through a run, and what holds it up."""

from typing import Literal

from msgspec import Struct

from rolldeck.wire import StageTiming

StageName = Literal["step", "exchange", "infer", "push", "queue", "batch", "train"]


class PipelineStage(Struct, frozen=True, kw_only=True):
    """One stage within the last minute; null where nobody measured it or nothing happened."""

    name: StageName
    rate: float | None
    """Of `unit` a second."""
    unit: str
    share: float | None
    """Part of the time in which it is at work; of the queue the part of its tolerance that is
    filled."""
    waits: float | None
    """Part of the time in which it has nothing to do, or no leave to."""
    waits_for: Literal["", "room", "weights", "data"]
    held: int | None
    """Items that are in it now; whole batches of the stage `batch`."""
    seconds: float | None
    """How long an item, or a batch, stays in it; of the queue by Little's law."""


class PipelineVerdict(Struct, frozen=True, kw_only=True):
    """What holds the run up."""

    sentence: str
    stage: StageName | None
    """Null: none does, or nobody can tell."""
    proof: list[str]
    change: str
    """What to do about it; empty where there is nothing to do."""
    run_status: str
    """Status of the run at that time. A page that shows another status shows no diagnosis."""


class BatchTimes(Struct, frozen=True, kw_only=True):
    """How long the last minute's batches took on their way; null where none came so far."""

    under_way: StageTiming | None
    """From when a batch was formed and leased to when its trainer had its last byte."""
    in_hand: StageTiming | None
    """From then to its confirmation."""


class Pipeline(Struct, frozen=True, kw_only=True):
    """How data flowed through a run within the last minute."""

    unit: Literal["fragments", "sequences"]
    workers: int
    """That run, and were heard of within seconds."""
    stages: list[PipelineStage]
    """In the order in which data passes them; of an outside run those that the deck sees."""
    verdict: PipelineVerdict
    batches: BatchTimes
    arriving: float | None
    """Items a second into the queue."""
    handed_out: float | None
    """Items a second out of it."""
    queued: int
    pause_above: float | None
    batch_size: int | None
    age_seconds: float | None
    """Mean time between an item's arrival and its batch, as measured."""
    age_versions: float | None
    """Versions by which the policy that sampled an item trailed the run's then, on average."""
    shares: dict[str, float]
    """Mean of the workers' parts of the time, by what they did or waited for."""


class VerdictList(Struct, frozen=True, kw_only=True):
    """What holds each run up, by the run's id."""

    results: dict[int, PipelineVerdict]
