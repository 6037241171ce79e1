"""Depth and state of a queue: items by environment, and the gates that pause producers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Sum

from buffer.batches.rules.pacing import (
    EnvironmentShare,
    PauseGate,
    is_over,
    staleness_gate,
    tolerance_gate,
)
from buffer.batches.schemas import EnvironmentQueueRow, LimitSetter
from buffer.items.models import Batch, Tally, TrajectoryGroup
from buffer.items.queries import (
    admission_remaining,
    counts,
    kind_of,
    stored_amounts,
)
from buffer.items.rules.states import NO_ENVIRONMENT, OPEN, ItemKind, ItemState
from rolldeck.pacing import PauseRule
from runs.events.models import RunEvent
from runs.lifecycle.models import Environment, Run
from runs.lifecycle.rules import batches_ahead, was_seen_recently
from web import sql
from web.sql import statements_of

SQL: Final = statements_of("buffer")


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
    with sql.cursor() as cursor:
        row = cursor.execute(SQL["is_batch_available"], parameters, prepare=True).fetchone()
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
    with sql.cursor() as cursor:
        return cursor.execute(SQL["uses_of_batch"], [batch.pk], prepare=True).fetchall()


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


def queue_activity(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the number of queued sequences or fragments of each run."""
    rows = Tally.objects.filter(run_id__in=run_ids, state=ItemState.QUEUED).values_list("run_id")
    return {
        run_id: {"queued": int(queued or 0)}
        for run_id, queued in rows.annotate(Sum("sequences")).order_by()
    }


DRAIN_WINDOW: Final = timedelta(minutes=2)
BATCHES_AT_MOST: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The queue of a run, and the gates that pause its producers."""

    depth: QueueDepth
    gates: list[PauseGate]
    since: datetime | None
    set_by: LimitSetter | None
    trained_per_second: float | None
    """Sequences or fragments leased per second in the last two minutes; None without batches."""
    resumes_in_seconds: float | None
    environments: list[EnvironmentQueueRow]


def queue_state(run: Run, *, now: datetime) -> QueueState:
    """Return the queue state of a run."""
    depth = queue_depth(run.pk)
    gates = _gates(run, depth)
    closed = [gate for gate in gates if gate.closed]
    set_by = None
    if gates:
        events = RunEvent.objects.filter(run=run)
        changed = events.filter(
            kind="settings_changed",
            details__has_any_keys=["off_policy_tolerance", "max_staleness"],
        )
        change = changed.order_by("-id").first()
        event = change or events.filter(kind="created").order_by("id").first()
        if event is not None:
            set_by = LimitSetter(
                actor=event.actor, at=event.at, reason=event.reason, is_initial=change is None
            )
    # The rate at which batches were leased over the last two minutes. If the row limit is reached,
    # it covers the time since the oldest row.
    since = now - DRAIN_WINDOW
    newest = Batch.objects.filter(run=run).order_by("-ordinal")
    rows = newest.values_list("leased_at", "sequences")[:BATCHES_AT_MOST]
    taken = [(at, sequences) for at, sequences in rows if at > since]
    if len(taken) == BATCHES_AT_MOST:
        since = min(at for at, _ in taken)
    rate = None
    if taken:
        leased = sum(sequences for _, sequences in taken)
        rate = leased / max(1.0, (now - since).total_seconds())
    return QueueState(
        depth=depth,
        gates=gates,
        since=run.over_tolerance_at if run.over_tolerance else None,
        set_by=set_by,
        trained_per_second=rate,
        resumes_in_seconds=max(gate.reopens_after for gate in closed) / rate
        if closed and rate
        else None,
        environments=_environments(run),
    )


def _gates(run: Run, depth: QueueDepth) -> list[PauseGate]:
    """Return the gates of a run: queue length for external environments, staleness for fleets."""
    rule = pause_rule(run)
    if rule is None or run.batch_size is None:
        return []
    gates = []
    if not run.has_fleet:
        gates.append(tolerance_gate(rule, queued=depth.queued_sequences, over=depth.paused))
    if run.has_fleet or run.max_staleness is not None:
        held = stored_amounts(run)
        ahead = batches_ahead(
            max_staleness=run.max_staleness, off_policy_tolerance=run.off_policy_tolerance
        )
        gates.append(
            staleness_gate(
                admitted=held.admitted,
                trained=held.trained,
                batches_ahead=ahead,
                batch_size=run.batch_size,
            )
        )
    return gates


def _environments(run: Run) -> list[EnvironmentQueueRow]:
    kind = kind_of(run)
    queued: Counter[tuple[int, str]] = Counter()
    sequences: Counter[tuple[int, str]] = Counter()
    waiting: dict[tuple[int, str], Counter[int]] = defaultdict(Counter)
    for row in counts(run.pk, kind, state__in=[ItemState.QUEUED, ItemState.WAITING]):
        place = row.env_id, row.environment
        if row.state == ItemState.WAITING:
            waiting[place][row.size] += row.items
        else:
            queued[place] += row.items
            sequences[place] += row.sequences
    places = sorted({*queued, *waiting})
    env_ids, names = (list(column) for column in zip(*places, strict=True)) if places else ([], [])
    oldest: dict[int | str, datetime | None]
    since: dict[int, datetime | None] = {}
    with connection.cursor() as cursor:
        if kind is ItemKind.FRAGMENTS:
            cursor.execute(SQL["oldest_queued_fragments"], [run.pk, run.epoch, names])
            oldest = dict(cursor.fetchall())
        else:
            cursor.execute(SQL["oldest_queued_groups"], [run.pk, env_ids])
            oldest = dict(cursor.fetchall())
            cursor.execute(SQL["oldest_waiting_groups"], [run.pk, env_ids])
            since = dict(cursor.fetchall())
    rows = Environment.objects.filter(run=run).values_list("env_id", "wandb_name", "group_size")
    registered = {env_id: (name, size) for env_id, name, size in rows}
    found = []
    for env_id, environment in places:
        sizes = {size: items for size, items in waiting[env_id, environment].items() if items}
        if not queued[env_id, environment] and not sizes:
            continue
        name, group_size = registered.get(env_id, ("without an environment", None))
        found.append(
            EnvironmentQueueRow(
                env_id=None if env_id == NO_ENVIRONMENT else env_id,
                name=environment or name,
                queued=queued[env_id, environment],
                queued_sequences=sequences[env_id, environment],
                waiting=sum(sizes.values()),
                waiting_sizes=sizes if run.takes_groups else {},
                group_size=group_size if run.takes_groups else None,
                oldest_at=oldest.get(environment if kind is ItemKind.FRAGMENTS else env_id),
                waiting_since=since.get(env_id),
            )
        )
    return found
