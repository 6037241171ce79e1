"""Data flow through a run by stage: rate, busy share and amount held.

The data of a fleet passes all stages; of an outside run only those from the push on are visible.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

Stage = Literal["step", "exchange", "infer", "push", "queue", "batch", "train"]
STAGES: Final[tuple[Stage, ...]] = ("step", "exchange", "infer", "push", "queue", "batch", "train")
PARTS: Final[dict[Stage, tuple[str, ...]]] = {
    "step": ("env_step",),
    "exchange": ("recv", "act"),
    "infer": ("infer",),
    "push": ("cut", "enqueue", "send"),
}
"""Pipeline spans that a worker measures (:data:`rollouts.fleet.process.spans.STAGES`), by stage.

The page lists the same spans, so the time of a stage is exactly the sum of its spans.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestWorker:
    """Rate of the slowest worker beside that of the others, in env steps or episodes per second."""

    index: int
    rate: float
    median_of_others: float


SLACK: Final = 0.1
"""Share by which numbers must pass a threshold before a named cause is no longer named."""


class AlertText(NamedTuple):
    """An alert that a cause raises; the message has no ages and rates, which change."""

    message: str
    subject: str = ""
    """Affected part of the run; empty for the run itself."""
    details: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Measurements of a run's last minute, or since its last change of state if that is shorter.

    Shares are fractions of the time, 0 to 1. Those of batches cover two cycles of a trainer whose
    cycle is longer than half a minute. None: not measured, or nothing happened.
    """

    kind: Literal["fleet", "language", "outside"]
    status: str
    unit: str
    """Unit of batches: ``fragments`` or ``sequences``; all rates are in these per second."""
    run: str = "RUN"
    """Name of the run."""
    previous: Collection[str] = ()
    """Keys of the causes that were recorded last; their thresholds are relaxed."""
    reason: str = ""
    """Reason of the run's status, as given by an operator."""
    is_probed: bool = False
    """Whether an outage has paused the run, so that its fleet samples probes."""
    status_seconds: float | None = None
    """Seconds since the last change of the status."""
    data_seconds: float = 0.0
    """Seconds since the newest arrival, or the last change of the status if that is later."""
    lease_seconds: float = 0.0
    """Seconds since the newest lease, or the last change of the status if that is later."""
    stalled_seconds: float = 0.0
    """Seconds without data, or without a lease, after which an alert is raised; 0: never."""
    refused_weights: str = ""
    """Why weights were refused since the last change of the status; empty if none were."""
    jobs_problem: str = ""
    """Why the server's background jobs do not run; empty if they run."""
    jobs_evidence: Sequence[str] = ()
    """Ages of their last heartbeats, in words."""
    fleet: str = "running"
    """State of the fleet as shown to users: ``unknown`` if it does not report."""
    fleet_reason: str = ""
    """Reason of the fleet's state, from its manager or the platform."""
    silent_seconds: float | None = None
    """Seconds since the fleet's last report."""
    is_silence_due: bool = False
    """Whether the present manager is silent for so long that an alert is due."""
    workers: int = 0
    """Running workers that have reported."""
    workers_wanted: int = 0
    workers_coming: int = 0
    """Workers that are starting or restarting."""
    workers_down: int = 0
    down_workers: Sequence[str] = ()
    """Workers that failed, or did not restart within a minute, each with that in words."""
    crashes: int = 0
    """Worker crashes of the last five minutes."""
    crash_reason: str = ""
    """Reason of the newest crash."""
    loop_crashes: int = 0
    """Crashes of loops in the fleet's processes of the last two minutes."""
    loop_error: str = ""
    """Error of the newest of them."""
    env_slots: int = 0
    """Env slots of all workers."""
    slots_lost: int = 0
    """Restarts and losses of env slots of the last two minutes."""
    slots_given_up: int = 0
    """Env slots among them that get no further environment."""
    env_errors: Sequence[str] = ()
    """Causes of these, newest first, each with its count."""
    workers_blocked: int = 0
    """Running workers that cannot sample, for example because their weights were refused."""
    block_reason: str = ""
    """Reason of one of them."""
    inference_failures: int = 0
    """Failed generation requests of the last two minutes, in a language run."""
    inference_error: str = ""
    """Error of the newest failed request."""
    slowest_worker: SlowestWorker | None = None
    """None if fewer than two workers run."""
    version: int | None = None
    """Newest published version; None if there is none."""
    version_age_seconds: float | None = None
    version_interval_seconds: float | None = None
    """Time between the two newest versions; None with fewer than two."""
    workers_without_weights: int = 0
    """Running workers without any version."""
    versions_behind: int = 0
    """Versions between the slowest running worker and the newest version."""
    behind_seconds: float | None = None
    """Seconds since a newer version than that of the slowest running worker was published."""
    load_seconds: float | None = None
    """Longest time from the notification of a worker to its use of a version in the last minute."""
    is_full: bool = False
    """Whether the queue is above `pause_above`, so producers pause until it drains."""
    is_limited: bool = False
    """Whether the fleet's admission limit is used up: no worker may start a fragment or group."""
    max_staleness: int | None = None
    """Most versions by which training data may be behind; None: no limit."""
    max_age_seconds: float | None = None
    """Highest age of training data; None: no limit."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Mean share of the workers' time by stage or wait."""
    work_per_second: float | None = None
    """Env steps of all workers, or episodes of a language run."""
    to_send: int = 0
    """Fragments or groups that workers have finished but not delivered."""
    waiting_environments: Sequence[str] = ()
    """Names of environments that wait for a trainer before they register."""
    environments: int = 0
    """Environments of an outside run that have made a call in the last two minutes."""
    idle_environments: Sequence[str] = ()
    """Environments that ask for their status and have pushed nothing for a minute or more, each
    with that time.
    """
    is_asked: bool = False
    """Whether a trainer has requested a batch in the last minute."""
    groups: int = 0
    """Groups sampled so far in a run that drops groups of equal rewards."""
    equal_groups: int = 0
    """Those with equal rewards."""
    answers: int = 0
    """Answers in the sampled groups."""
    equal_lessons: Sequence[str] = ()
    """Lessons with such groups, each with its counts and its success."""
    refused: Sequence[str] = ()
    """Environments whose pushes are refused, each with the count and the newest error."""
    arrival_drops: str = ""
    """Newest groups that were dropped on arrival, with the reason in words; empty if few."""
    arrival_remedy: str = ""
    """Change that prevents these drops."""
    refusal_alerts: Sequence[AlertText] = ()
    """Alert of each environment whose pushes are refused."""
    groups_without_gradient: int = 0
    """Newest groups, if all advantages in all of them are 0; otherwise 0."""
    gradient_evidence: Sequence[str] = ()
    """Scores of these groups."""
    refused_groups: int = 0
    """Groups of these pushes."""
    refusal_advice: Sequence[str] = ()
    """What removes the causes of the newest errors."""
    stale_share: float | None = None
    """Share of the items that left the queue which were dropped as stale, of the newest arrivals.
    None with few items.
    """
    arriving: float | None = None
    handed_out: float | None = None
    batches_per_second: float | None = None
    queued: int = 0
    pause_above: float | None = None
    """Queued items above which producers pause."""
    batch_size: int | None = None
    trainer_waits: float | None = None
    """Share of the time in which a trainer held no batch; None if no trainer held one."""
    train_seconds: float | None = None
    """Mean seconds that a trainer holds a batch."""
    holding_seconds: float | None = None
    """Seconds that the trainer has held its oldest batch."""
    since_lease_seconds: float | None = None
    """Seconds since the newest lease."""
    fetched_again: tuple[int, int] | None = None
    """Number of the leased batch that its trainer fetched most often, and how often."""
    delivery_seconds: float | None = None
    """Mean seconds from a batch's lease to its last byte."""
    age_seconds: float | None = None
    """Mean seconds between an item's arrival and its batch."""

    def slack(self, kind: str, stage: str) -> float:
        """Return the share by which the thresholds of a cause are relaxed, if it was named."""
        return SLACK if f"{kind}:{stage}" in self.previous else 0.0

    @property
    def is_stalled_for_data(self) -> bool:
        """Whether no data has arrived for so long that an alert is due."""
        return 0 < self.stalled_seconds < self.data_seconds and self.holding_seconds is None

    @property
    def held_back(self) -> float:
        """Share of the time in which the admission limit kept workers from starting a fragment.

        The limit follows from `max_staleness`, or from the off-policy tolerance if that is unset.
        It may apply while the queue is empty.
        """
        return self.shares.get("waiting_room", 0.0)

    @property
    def batches_waiting(self) -> float:
        """Number of batches that the queued items can form."""
        return self.queued / self.batch_size if self.batch_size else 0.0

    @property
    def queue_share(self) -> float:
        """Share of the queue's tolerance that is filled."""
        return self.queued / self.pause_above if self.pause_above else 0.0

    @property
    def delivery_share(self) -> float | None:
        """Share of the time in which a batch was in transit to its trainer."""
        if self.delivery_seconds is None or self.batches_per_second is None:
            return None
        return min(1.0, self.delivery_seconds * self.batches_per_second)


class PipelineStage(Struct, frozen=True, kw_only=True):
    """One stage in the last minute; null if not measured or nothing happened.

    Batches and the trainer are measured over two cycles of a trainer that is slower.
    """

    name: Stage
    rate: float | None
    """Rate in `unit` per second."""
    unit: str
    share: float | None
    """Share of the time in which it is busy; for the queue, the filled share of its tolerance."""
    waits: float | None
    """Share of the time in which it is idle, for lack of input or of permission."""
    waits_for: Literal["", "room", "weights", "data"]
    held: int | None
    """Items in the stage now; complete batches for the stage `batch`."""
    seconds: float | None
    """Time that an item, or a batch, spends in the stage; for the queue by Little's law."""


def stages(facts: Facts) -> list[PipelineStage]:
    """Return the visible stages of a run, in the order in which data passes through them."""
    flows = [] if facts.kind == "outside" else _worker_stages(facts)
    push = PipelineStage(
        name="push",
        rate=facts.arriving,
        unit=facts.unit,
        share=share_of("push", facts.shares),
        waits=None,
        waits_for="",
        held=facts.to_send if facts.kind != "outside" else None,
        seconds=None,
    )
    queue = PipelineStage(
        name="queue",
        rate=facts.handed_out,
        unit=facts.unit,
        share=min(1.0, facts.queue_share) if facts.pause_above else None,
        waits=None,
        waits_for="",
        held=facts.queued,
        # By Little's law.
        seconds=facts.queued / facts.handed_out if facts.handed_out else None,
    )
    batch = PipelineStage(
        name="batch",
        rate=facts.batches_per_second,
        unit="batches",
        share=facts.delivery_share,
        waits=None,
        waits_for="",
        held=int(facts.batches_waiting) if facts.batch_size else None,
        seconds=facts.delivery_seconds,
    )
    waits = facts.trainer_waits
    train = PipelineStage(
        name="train",
        rate=facts.handed_out if waits is not None else None,
        unit=facts.unit,
        share=None if waits is None else max(0.0, 1.0 - waits),
        waits=waits,
        waits_for="data" if waits else "",
        held=None,
        seconds=facts.train_seconds,
    )
    return [*flows, push, queue, batch, train]


def _worker_stages(facts: Facts) -> list[PipelineStage]:
    waits: float | None = None
    waits_for: Literal["", "room", "weights"] = ""
    if facts.shares:
        room = facts.shares.get("waiting_room", 0.0)
        weights = facts.shares.get("waiting_weights", 0.0)
        waits = max(room, weights)
        if waits:
            waits_for = "room" if room >= weights else "weights"
    # A language worker only generates; its episodes are counted at that stage.
    is_language = facts.kind == "language"
    names: tuple[Stage, ...] = ("infer",) if is_language else ("step", "exchange", "infer")
    return [
        PipelineStage(
            name=name,
            rate=facts.work_per_second if name == "step" or is_language else None,
            unit="episodes" if is_language else "env steps",
            share=share_of(name, facts.shares),
            waits=waits,
            waits_for=waits_for,
            held=None,
            seconds=None,
        )
        for name in names
    ]


def share_of(stage: Stage, shares: Mapping[str, float]) -> float | None:
    """Return the share of the workers' time that a stage takes; None if it was not measured."""
    if not shares:
        return None
    return min(1.0, sum(shares.get(part, 0.0) for part in PARTS.get(stage, ())))
