"""Read the depth of a run's queue, and what it means for its producers."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from buffer.batches.rules.pacing import is_over
from buffer.batches.rules.status_env import EnvironmentShare
from buffer.items.models.items import Batch, TrajectoryGroup
from buffer.items.queries.admission import (
    admission_remaining,
    kind_of,
)
from buffer.items.queries.counts import _USES, counts
from buffer.items.rules.states import OPEN, ItemKind, ItemState
from rolldeck.pacing import PauseRule
from runs.lifecycle.models.runs import Environment, Run
from runs.lifecycle.rules.registration import was_seen_recently
from web import database

_IS_BATCH_AVAILABLE: Final = """
    SELECT t.id IS NULL OR r.trainer_started_at IS NULL
    OR t.last_seen_at < statement_timestamp() - interval '5 seconds'
    OR EXISTS (
        SELECT FROM buffer_batch b
        WHERE b.run_id = r.id AND NOT b.id = ANY(%(holding)s::uuid[])
        AND (b.state = 'returned' OR (b.state = 'leased' AND b.trainer_id = t.id))
    ) OR COALESCE(%(count)s::int, r.batch_size) <= (
        SELECT SUM(sequences) FROM buffer_tally WHERE run_id = r.id AND state = 'queued'
    )
    FROM runs_run r LEFT JOIN runs_trainer t ON t.run_id = r.id AND t.identity = %(identity)s
    WHERE r.id = %(run)s"""


class UnknownEnvironmentId(Exception):
    """The run has no environment with this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Queue sizes and pause state of a run."""

    queued: int
    queued_sequences: int
    waiting: int
    leased: int
    """Items of leased batches, and of returned ones until they are served again."""
    leased_sequences: int
    size_bytes: int
    """Bytes of all waiting, queued, leased and quarantined items."""
    threshold: float
    """Queued sequences or fragments above which producers pause."""
    resume_at: float
    """Queued sequences or fragments at which producers resume."""
    batch_size: int | None
    paused: bool
    """True after the queue passed the threshold, until it falls to `resume_at`."""
    served_steps: int
    admission_remaining: int
    """Sequences or fragments that may still be accepted, including those already started."""
    running: int
    """Fragments that the fleet has started and not delivered; 0 for external runs, which
    do not report it."""
    admission_capacity: int
    """Sequences or fragments that may still be started."""


def pause_rule(run: Run) -> PauseRule | None:
    """Return the pause rule of a run, or None while it has no batch size."""
    if run.batch_size is None:
        return None
    return PauseRule(batch_size=run.batch_size, off_policy_tolerance=run.off_policy_tolerance)


def queue_depth(run_id: int) -> QueueDepth:
    """Return the queue depth of a run."""
    run = Run.objects.get(pk=run_id)
    rows = counts(run_id, kind_of(run))
    items: Counter[str] = Counter()
    sequences: Counter[str] = Counter()
    for row in rows:
        items[row.state] += row.items
        sequences[row.state] += row.sequences
    queued = sequences[ItemState.QUEUED]
    rule = pause_rule(run)
    remaining, running = admission_remaining(run_id), running_items(run_id)
    return QueueDepth(
        queued=items[ItemState.QUEUED],
        queued_sequences=queued,
        waiting=items[ItemState.WAITING],
        leased=items[ItemState.LEASED],
        leased_sequences=sequences[ItemState.LEASED],
        size_bytes=sum(row.size_bytes for row in rows if row.state in OPEN),
        threshold=rule.pause_above if rule else 0.0,
        resume_at=rule.resume_at if rule else 0.0,
        batch_size=run.batch_size,
        paused=rule is not None and is_over(rule, over=run.over_tolerance, queued=queued),
        served_steps=run.served_steps,
        admission_remaining=remaining,
        running=running,
        admission_capacity=max(0, remaining - running),
    )


RUNNING_COUNTERS: Final[list[Callable[[int], int]]] = []
"""Count the items of a run that producers have started, not delivered (:mod:`config.readers`)."""


def running_items(run_id: int) -> int:
    """Return the number of items that producers report as started and not delivered."""
    return sum(counter(run_id) for counter in RUNNING_COUNTERS)


def is_batch_available(
    run_id: int, *, identity: str, count: int | None, holding: Iterable[UUID] = ()
) -> bool:
    """Return whether a lease may succeed, or the request itself must be recorded.

    One read without a lock, for waiting requests, because most pushes do not complete a batch. It
    also counts stale items, so a positive result is not certain; a negative result is.

    Args:
        run_id: The run.
        identity: Identity of the requester.
        count: Items per batch; by default the run's batch size.
        holding: Batches that the requester has received and not acknowledged.
    """
    parameters = {"run": run_id, "identity": identity, "count": count, "holding": list(holding)}
    with database.cursor() as cursor:
        row = cursor.execute(_IS_BATCH_AVAILABLE, parameters, prepare=True).fetchone()
    return row is not None and bool(row[0])


def is_drained(run_id: int) -> bool:
    """Return whether no batch is leased and no further one can be formed or served."""
    run = Run.objects.get(pk=run_id)
    rows = counts(run_id, kind_of(run), state__in=[ItemState.QUEUED, ItemState.LEASED])
    leased = sum(row.items for row in rows if row.state == ItemState.LEASED)
    queued = sum(row.sequences for row in rows if row.state == ItemState.QUEUED)
    return leased == 0 and (run.has_served_all_steps or queued < (run.batch_size or 1))


def shares_of_environments(
    environments: Iterable[Environment], *, asking: int, now: datetime
) -> list[EnvironmentShare]:
    """Return the attributes of environments that the reported queue status needs.

    Args:
        environments: Environments of the run.
        asking: The environment that makes the request.
        now: Current time.
    """
    return [
        EnvironmentShare(
            env_id=row.env_id,
            max_token_length=row.max_token_length,
            weight=row.weight,
            group_size=row.group_size,
            min_batch_allocation=row.min_batch_allocation,
            connected=row.connected
            and not row.muted
            and (row.env_id == asking or was_seen_recently(row.last_seen_at, now=now)),
        )
        for row in environments
    ]


def queued_by_environment_and_size(run_id: int) -> Counter[tuple[int | None, int]]:
    """Return the number of queued groups by environment (None: without one) and size."""
    queued: Counter[tuple[int | None, int]] = Counter()
    for count in counts(run_id, ItemKind.GROUPS, state=ItemState.QUEUED):
        queued[None if count.env_id < 0 else count.env_id, count.size] += count.items
    return queued


def queue_part(run_id: int) -> QueueDepth | None:
    """Return the queue depth for the live page, or None if the run no longer exists."""
    return queue_depth(run_id) if Run.objects.filter(pk=run_id).exists() else None


def uses_of(batch: Batch) -> list[tuple[int, float]]:
    """Return id and importance weight of each item of a sampled batch, in order."""
    with database.cursor() as cursor:
        return cursor.execute(_USES, [batch.pk], prepare=True).fetchall()


def batches(*, run_id: int, limit: int, before: int | None = None, state: str = "") -> list[Batch]:
    """Return a run's batches, newest first; `before` limits ordinals, `state` filters."""
    rows = Batch.objects.filter(run_id=run_id).select_related("trainer").order_by("-ordinal")
    if before is not None:
        rows = rows.filter(ordinal__lt=before)
    if state:
        rows = rows.filter(state=state)
    return list(rows[:limit])


def item_sizes(batch: Batch) -> list[int]:
    """Return the number of sequences of each group of a batch in order; 1 for fragments."""
    if batch.kind == ItemKind.FRAGMENTS:
        return [1] * batch.items
    rows = TrajectoryGroup.objects.filter(batch=batch).order_by("position")
    return list(rows.values_list("sequences", flat=True))
