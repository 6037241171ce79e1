"""Queue state of a run: gates that pause producers, and queued items by environment."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from buffer.batches.queries.queue_depth import QueueDepth, pause_rule, queue_depth
from buffer.batches.rules.pauses import Gate, staleness_gate, tolerance_gate
from buffer.batches.schemas.queues import EnvironmentQueueRow, LimitSetter
from buffer.items.models.items import Batch
from buffer.items.queries.admission import kind_of, stored_amounts
from buffer.items.queries.counts import counts
from buffer.items.rules.environments import NO_ENVIRONMENT
from buffer.items.rules.states import ItemKind, ItemState
from runs.events.models import RunEvent
from runs.lifecycle.models.runs import Environment, Run
from runs.lifecycle.rules.versions import batches_ahead

DRAIN_WINDOW: Final = timedelta(minutes=2)
BATCHES_AT_MOST: Final = 500
_OLDEST_GROUPS: Final = """
    SELECT e.id, (SELECT received_at FROM buffer_trajectorygroup
        WHERE run_id = %s AND COALESCE(env_id, -1) = e.id AND state = 'queued'
        ORDER BY id LIMIT 1)
    FROM unnest(%s::int[]) AS e(id)"""
_OLDEST_WAITING: Final = """
    SELECT e.id, (SELECT received_at FROM buffer_trajectorygroup
        WHERE run_id = %s AND env_id = e.id AND state = 'waiting'
        ORDER BY id LIMIT 1)
    FROM unnest(%s::int[]) AS e(id)"""
_OLDEST_FRAGMENTS: Final = """
    SELECT e.name, (SELECT received_at FROM buffer_fragmentchunk
        WHERE run_id = %s AND epoch = %s AND environment = e.name AND state = 'queued'
        ORDER BY id LIMIT 1)
    FROM unnest(%s::text[]) AS e(name)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The queue of a run, and the gates that pause its producers."""

    depth: QueueDepth
    gates: list[Gate]
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
    rate = _trained_per_second(run.pk, now=now)
    return QueueState(
        depth=depth,
        gates=gates,
        since=run.over_tolerance_at if run.over_tolerance else None,
        set_by=_setter(run) if gates else None,
        trained_per_second=rate,
        resumes_in_seconds=max(gate.reopens_after for gate in closed) / rate
        if closed and rate
        else None,
        environments=_environments(run),
    )


def _gates(run: Run, depth: QueueDepth) -> list[Gate]:
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


def _setter(run: Run) -> LimitSetter | None:
    changed = RunEvent.objects.filter(
        run=run,
        kind="settings_changed",
        details__has_any_keys=["off_policy_tolerance", "max_staleness"],
    )
    event = changed.order_by("-id").first()
    found = event or RunEvent.objects.filter(run=run, kind="created").order_by("id").first()
    if found is None:
        return None
    return LimitSetter(
        actor=found.actor, at=found.at, reason=found.reason, is_initial=event is None
    )


def _trained_per_second(run_id: int, *, now: datetime) -> float | None:
    """Return the rate at which batches were leased over the last two minutes."""
    since = now - DRAIN_WINDOW
    newest = Batch.objects.filter(run_id=run_id).order_by("-ordinal")
    rows = newest.values_list("leased_at", "sequences")[:BATCHES_AT_MOST]
    taken = [(at, sequences) for at, sequences in rows if at > since]
    if not taken:
        return None
    # If the row limit is reached, the rate covers the time since the oldest row.
    began = min(at for at, _ in taken) if len(taken) == BATCHES_AT_MOST else since
    return sum(sequences for _, sequences in taken) / max(1.0, (now - began).total_seconds())


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
    oldest = _oldest(run, kind, places)
    since = _waiting_since(run, [env_id for env_id, _ in places]) if run.takes_groups else {}
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


def _waiting_since(run: Run, env_ids: list[int]) -> dict[int, datetime | None]:
    """Return the arrival time of the oldest waiting group of each environment."""
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST_WAITING, [run.pk, env_ids])
        return dict(cursor.fetchall())


def _oldest(
    run: Run, kind: ItemKind, places: list[tuple[int, str]]
) -> dict[int | str, datetime | None]:
    """Return the arrival time of the head of each environment's queue, by index lookups."""
    with connection.cursor() as cursor:
        if kind is ItemKind.FRAGMENTS:
            names = [name for _, name in places]
            cursor.execute(_OLDEST_FRAGMENTS, [run.pk, run.epoch, names])
        else:
            cursor.execute(_OLDEST_GROUPS, [run.pk, [env_id for env_id, _ in places]])
        return dict(cursor.fetchall())
