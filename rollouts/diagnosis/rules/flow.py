"""Data flow through a run by stage: rate, busy share and amount held.

The data of a fleet passes all stages; of an outside run only those from the push on are visible.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Stage = Literal["step", "exchange", "infer", "push", "queue", "batch", "train"]
STAGES: Final[tuple[Stage, ...]] = (
    "step",
    "exchange",
    "infer",
    "push",
    "queue",
    "batch",
    "train",
)
PARTS: Final[dict[Stage, tuple[str, ...]]] = {
    "step": ("env_step",),
    "exchange": ("recv", "act"),
    "infer": ("infer",),
    "push": ("cut", "enqueue", "send"),
}
"""Spans that a worker measures (:data:`rollouts.fleet.worker.spans.STAGES`), by stage. The
page lists the same spans, so a stage is exactly the sum of the spans beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a run's last minute. Shares are parts of the time, 0 to 1.

    None: nobody measured it, or nothing happened.
    """

    kind: Literal["fleet", "language", "outside"]
    status: str
    unit: str
    """What batches count: ``fragments`` or ``sequences``; all rates are of these a second."""
    reason: str = ""
    """Why the run is in this status, as somebody said."""
    fleet: str = "running"
    """State of the fleet, as a page shows it: ``unknown`` when it is silent."""
    fleet_reason: str = ""
    """Why it is so, in the words of its manager or of the platform."""
    silent_seconds: float | None = None
    """Since the fleet's last report."""
    workers: int = 0
    """That run, and were heard of."""
    workers_wanted: int = 0
    workers_coming: int = 0
    """That start, or start again."""
    workers_down: int = 0
    version: int | None = None
    """Newest version that a trainer published; None: none."""
    version_age_seconds: float | None = None
    versions_behind: int = 0
    """By which the slowest running worker trails the newest version."""
    behind_seconds: float | None = None
    """How long there has been a newer version than the slowest running worker acts with."""
    is_full: bool = False
    """The queue is above `pause_above`, so producers pause until it has drained."""
    is_limited: bool = False
    """The admission limit of the fleet is used up: no worker may start anything."""
    max_staleness: int | None = None
    """Versions by which data may trail when it is trained on; None: no limit."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Mean of the workers' parts of the time by what they did or waited for."""
    work_per_second: float | None = None
    """Env steps of all workers; episodes of a language run."""
    to_send: int = 0
    """Fragments or groups that workers have finished and not delivered."""
    waiting_environments: Sequence[str] = ()
    """Names of environments that wait for a trainer before they can register."""
    refused: Sequence[str] = ()
    """Environments whose pushes are refused, each with its count and the newest problem."""
    arriving: float | None = None
    handed_out: float | None = None
    batches_per_second: float | None = None
    queued: int = 0
    pause_above: float | None = None
    """Queued items above which producers pause."""
    batch_size: int | None = None
    trainer_waits: float | None = None
    """Part of the time in which a trainer had no batch; None: no trainer had one."""
    train_seconds: float | None = None
    """Mean time that a trainer holds a batch."""
    holding_seconds: float | None = None
    """How long the trainer has held the batch that it has longest."""
    delivery_seconds: float | None = None
    """Mean time from a batch's lease to its last byte."""
    age_seconds: float | None = None
    """Mean time between an item's arrival and its batch."""

    @property
    def held_back(self) -> float:
        """Part of the time in which the admission limit kept workers from starting anything.

        The limit follows from `max_staleness`, or from the off-policy tolerance without one. The
        queue may be empty meanwhile.
        """
        return self.shares.get("waiting_room", 0.0)

    @property
    def batches_waiting(self) -> float:
        """Batches that could be made of what is queued."""
        return self.queued / self.batch_size if self.batch_size else 0.0

    @property
    def delivery_share(self) -> float | None:
        """Part of the time in which a batch was on its way to its trainer."""
        if self.delivery_seconds is None or self.batches_per_second is None:
            return None
        return min(1.0, self.delivery_seconds * self.batches_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFlow:
    """One stage as a page shows it."""

    name: Stage
    rate: float | None
    """Of `unit` a second."""
    unit: str
    share: float | None
    """Part of the time in which it is at work."""
    waits: float | None
    """Part of the time in which it could work and has nothing to, or no leave to."""
    waits_for: Literal["", "room", "weights", "data"]
    held: int | None
    """Items that are in it now."""
    seconds: float | None
    """How long an item, or a batch, stays in it."""


def stages(facts: Facts) -> list[StageFlow]:
    """Return the stages that can be seen of a run, in the order in which data passes them."""
    return [*_of_workers(facts), _push(facts), _queue(facts), _batch(facts), _train(facts)]


def share_of(stage: Stage, shares: Mapping[str, float]) -> float | None:
    """Return what part of the workers' time a stage takes; None if they measured nothing."""
    if not shares:
        return None
    return min(1.0, sum(shares.get(part, 0.0) for part in PARTS.get(stage, ())))


def _of_workers(facts: Facts) -> Iterable[StageFlow]:
    if facts.kind == "outside":
        return
    waits, waits_for = _idle(facts.shares)
    # A language worker only generates; its episodes are counted at that stage.
    is_language = facts.kind == "language"
    names: tuple[Stage, ...] = ("infer",) if is_language else ("step", "exchange", "infer")
    for name in names:
        is_counted = name == "step" or is_language
        yield StageFlow(
            name=name,
            rate=facts.work_per_second if is_counted else None,
            unit="episodes" if is_language else "env steps",
            share=share_of(name, facts.shares),
            waits=waits,
            waits_for=waits_for,
            held=None,
            seconds=None,
        )


def _idle(shares: Mapping[str, float]) -> tuple[float | None, Literal["", "room", "weights"]]:
    if not shares:
        return None, ""
    room, weights = shares.get("waiting_room", 0.0), shares.get("waiting_weights", 0.0)
    total = min(1.0, room + weights)
    return total, "" if not total else "room" if room >= weights else "weights"


def _push(facts: Facts) -> StageFlow:
    return StageFlow(
        name="push",
        rate=facts.arriving,
        unit=facts.unit,
        share=share_of("push", facts.shares),
        waits=None,
        waits_for="",
        held=facts.to_send if facts.kind != "outside" else None,
        seconds=None,
    )


def _queue(facts: Facts) -> StageFlow:
    return StageFlow(
        name="queue",
        rate=facts.handed_out,
        unit=facts.unit,
        share=min(1.0, facts.queued / facts.pause_above) if facts.pause_above else None,
        waits=None,
        waits_for="",
        held=facts.queued,
        seconds=stay(facts.queued, per_second=facts.handed_out),
    )


def stay(items: float, *, per_second: float | None) -> float | None:
    """Return how long an item stays where so many are and so many leave: Little's law."""
    return items / per_second if per_second else None


def _batch(facts: Facts) -> StageFlow:
    return StageFlow(
        name="batch",
        rate=facts.batches_per_second,
        unit="batches",
        share=facts.delivery_share,
        waits=None,
        waits_for="",
        held=int(facts.batches_waiting) if facts.batch_size else None,
        seconds=facts.delivery_seconds,
    )


def _train(facts: Facts) -> StageFlow:
    waits = facts.trainer_waits
    return StageFlow(
        name="train",
        rate=facts.handed_out if waits is not None else None,
        unit=facts.unit,
        share=None if waits is None else max(0.0, 1.0 - waits),
        waits=waits,
        waits_for="data" if waits else "",
        held=None,
        seconds=facts.train_seconds,
    )
