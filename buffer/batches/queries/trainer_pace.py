"""Waiting time of a run's trainers, and age of the items that they train on."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Avg, F

from buffer.batches.rules.trainer_pace import mean_versions, waiting_share, window_seconds
from buffer.items.models import Batch, BatchUse, FragmentChunk, TrajectoryGroup
from buffer.items.rules.states import BatchState, ItemKind
from runs.lifecycle.models import Trainer

BATCHES_AT_MOST: Final = 200
"""Maximum number of batches read, newest first."""
AGED_AT_MOST: Final = 20
"""Number of newest batches whose item ages are read."""
_COLUMNS: Final = (
    *("trainer", "state", "epoch", "kind", "sampler", "staleness"),
    *("leased_at", "delivered_at", "settled_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerPace:
    """Trainer statistics of the window, or since the first batch in it.

    The window is a minute, or two cycles of a slower trainer.
    """

    seconds: float
    """Duration that the statistics cover."""
    batches: int
    """Batches leased or acknowledged in that time."""
    waiting_share: float
    """Fraction of the time in which a trainer held no batch; mean over trainers."""
    age_seconds: float | None
    """Mean time from the arrival of an item to the lease of its batch."""
    age_versions: float | None
    """Mean number of policy versions by which items were behind the run when leased."""


def trainer_pace(
    run_id: int, *, since: datetime | None = None, now: datetime
) -> TrainerPace | None:
    """Return the trainer statistics of a run; None without batches within the window.

    A trainer holds a batch from delivery until acknowledgement. If the trainer does not
    acknowledge it, its next request does.

    Args:
        run_id: The run.
        since: Earliest time of the window, for instance the last change of the run's status.
        now: Present time.
    """
    of_run = Batch.objects.filter(run_id=run_id).only(*_COLUMNS)
    newest = list(of_run.order_by("-ordinal")[:BATCHES_AT_MOST])
    starts = ((batch.trainer_id, batch.leased_at.timestamp()) for batch in newest)
    begin = now - timedelta(seconds=window_seconds(starts, now=now.timestamp()))
    begin = begin if since is None else max(begin, since)
    found = [batch for batch in newest if (batch.settled_at or now) > begin]
    held = _held(found, now=now)
    if not held:
        return None
    first = max(begin.timestamp(), min(began for spans in held.values() for began, _ in spans))
    shares = [
        share
        for spans in held.values()
        if (share := waiting_share(spans, since=first, until=now.timestamp())) is not None
    ]
    if not shares:
        return None
    return TrainerPace(
        seconds=now.timestamp() - first,
        batches=len(found),
        waiting_share=sum(shares) / len(shares),
        age_seconds=_mean_age(found[:AGED_AT_MOST]),
        age_versions=mean_versions(batch.staleness for batch in found),
    )


def trainer_wait_share(run_id: int, *, since: datetime, until: datetime) -> float | None:
    """Return the fraction of a period in which a trainer held no batch; mean over trainers.

    Includes trainers that held a batch in the period, and trainers that only sent requests.

    Returns:
        The fraction, or None without trainers.
    """
    of_run = Batch.objects.filter(run_id=run_id, leased_at__lt=until).only(*_COLUMNS)
    newest = of_run.order_by("-ordinal")[:BATCHES_AT_MOST]
    held = _held([one for one in newest if (one.settled_at or until) > since], now=until)
    there = Trainer.objects.filter(run_id=run_id, run__trainer_started_at__lt=until)
    joined = {
        pk: registered_at
        for pk, registered_at, seen_at in there.values_list("pk", "registered_at", "last_seen_at")
        if pk in held or since < seen_at
    }
    shares = [
        waiting_share(
            held.get(pk, []),
            since=max(since, registered_at).timestamp(),
            until=until.timestamp(),
        )
        for pk, registered_at in joined.items()
    ]
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None


def _held(batches: list[Batch], *, now: datetime) -> dict[int, list[tuple[float, float]]]:
    """Return the periods in which each trainer held batches of the newest epoch."""
    held: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for batch in batches:
        is_over = batch.settled_at is None and batch.state != BatchState.LEASED
        if batch.trainer_id is None or is_over or batch.epoch != batches[0].epoch:
            continue
        # A batch that is still being delivered counts as waiting.
        began = batch.delivered_at or (batch.leased_at if batch.settled_at else now)
        held[batch.trainer_id].append((began.timestamp(), (batch.settled_at or now).timestamp()))
    return held


def _mean_age(batches: list[Batch]) -> float | None:
    if not batches:
        return None
    kind, is_sampled = batches[0].kind, bool(batches[0].sampler)
    same = [one.pk for one in batches if (one.kind, bool(one.sampler)) == (kind, is_sampled)]
    received = "item__received_at" if is_sampled else "received_at"
    rows: Any = FragmentChunk if kind == ItemKind.FRAGMENTS else TrajectoryGroup
    found = (BatchUse if is_sampled else rows).objects.filter(batch__in=same)
    mean: timedelta | None = found.aggregate(mean=Avg(F("batch__leased_at") - F(received)))["mean"]
    return None if mean is None else max(0.0, mean.total_seconds())
