"""Queue depth, ledgers and limits of a run, read from counts without scans."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import Count, Sum

from buffer import storage
from buffer.core.fates import OPEN, Fate, ItemKind
from buffer.core.ledger import ACCEPTED, Ledger, balance
from buffer.core.limits import Limits
from buffer.core.pacing import is_over
from buffer.core.status_env import EnvironmentShare
from buffer.models import (
    Batch,
    FragmentChunk,
    Tally,
    TrajectoryGroup,
)
from buffer.selectors.admission import Holdings as Holdings
from buffer.selectors.admission import admission as admission
from buffer.selectors.admission import admission_remaining as admission_remaining
from buffer.selectors.admission import holdings as holdings
from buffer.selectors.admission import kind_of
from buffer.selectors.batches_around import batches_around as batches_around
from buffer.selectors.flows import BatchFlow as BatchFlow
from buffer.selectors.flows import GroupFlow as GroupFlow
from buffer.selectors.flows import Place as Place
from buffer.selectors.flows import RunCounts as RunCounts
from buffer.selectors.flows import batch_flow as batch_flow
from buffer.selectors.flows import cut_flow as cut_flow
from buffer.selectors.flows import group_flow as group_flow
from buffer.selectors.flows import run_counts as run_counts
from buffer.selectors.outlooks import queue_outlooks as queue_outlooks
from buffer.selectors.rates import Rates as Rates
from buffer.selectors.rates import rates_of as rates_of
from buffer.selectors.tokens import HandedOut as HandedOut
from buffer.selectors.tokens import tokens_handed_out as tokens_handed_out
from buffer.selectors.trainer_pace import TrainerPace as TrainerPace
from buffer.selectors.trainer_pace import trainer_pace as trainer_pace
from buffer.selectors.trainer_pace import trainers_waited as trainers_waited
from buffer.wire.ledgers import KindLedger, LedgerPart
from rolldeck.pacing import PauseRule
from runs.core.registration import is_heard
from runs.models import Environment, Run

_BATCH_IN_SIGHT: Final = """
    SELECT t.id IS NULL OR r.trainer_started_at IS NULL
    OR t.last_seen_at < statement_timestamp() - interval '5 seconds'
    OR EXISTS (
        SELECT FROM buffer_batch b
        WHERE b.run_id = r.id
        AND (b.state = 'returned' OR (b.state = 'leased' AND b.trainer_id = t.id))
    ) OR COALESCE(%(count)s::int, r.batch_size) <= (
        SELECT SUM(sequences) FROM buffer_tally WHERE run_id = r.id AND fate = 'queued'
    )
    FROM runs_run r LEFT JOIN runs_trainer t ON t.run_id = r.id AND t.identity = %(identity)s
    WHERE r.id = %(run)s"""

_QUEUED_FRAGMENTS: Final = """
    SELECT COALESCE(SUM(items), 0)::bigint FROM buffer_tally
    WHERE run_id = %s AND kind = 'fragments' AND fate = 'queued' AND epoch = %s"""
_USES: Final = """
    SELECT item_id, importance_weight FROM buffer_batchuse
    WHERE batch_id = %s ORDER BY position"""


class UnknownEnvironmentId(Exception):
    """The run has no environment with this id."""


class CountRow(NamedTuple):
    """A count, summed over its shards."""

    fate: str
    reason: str
    epoch: int
    env_id: int
    environment: str
    size: int
    items: int
    sequences: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Queue sizes and pause state of a run."""

    queued: int
    queued_sequences: int
    waiting: int
    leased: int
    size_bytes: int
    """Bytes of all waiting, queued, leased and quarantined items."""
    threshold: float
    """Queued sequences or fragments above which producers pause."""
    resume_at: float
    """Queued sequences or fragments at which producers resume."""
    batch_size: int | None
    over_threshold: bool
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


def counts(run_id: int, kind: ItemKind, **which: Any) -> list[CountRow]:
    """Return the counts of a run's items of one kind."""
    rows = (
        Tally.objects.filter(run_id=run_id, kind=kind, **which)
        .values_list("fate", "reason", "epoch", "env_id", "environment", "size")
        .annotate(Sum("items"), Sum("sequences"), Sum("size_bytes"))
    )
    return [CountRow(*row) for row in rows.order_by()]


def open_items(run_id: int, kind: ItemKind) -> int:
    """Return the number of a run's items that are neither served nor dropped."""
    return sum(count.items for count in counts(run_id, kind, fate__in=OPEN))


def queued_groups(run_id: int) -> int:
    """Return the number of queued groups."""
    return sum(count.items for count in counts(run_id, ItemKind.GROUPS, fate=Fate.QUEUED))


def queued_fragments(run_id: int, epoch: int) -> int:
    """Return the number of queued fragments of an epoch."""
    with storage.cursor() as cursor:
        row = cursor.execute(_QUEUED_FRAGMENTS, [run_id, epoch], prepare=True).fetchone()
    return 0 if row is None else int(row[0])


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
    for row in rows:
        items[row.fate] += row.items
    sequences = sum(row.sequences for row in rows if row.fate == Fate.QUEUED)
    rule = pause_rule(run)
    remaining, running = admission_remaining(run_id), running_items(run_id)
    return QueueDepth(
        queued=items[Fate.QUEUED],
        queued_sequences=sequences,
        waiting=items[Fate.WAITING],
        leased=items[Fate.LEASED],
        size_bytes=sum(row.size_bytes for row in rows if row.fate in OPEN),
        threshold=rule.pause_above if rule else 0.0,
        resume_at=rule.resume_at if rule else 0.0,
        batch_size=run.batch_size,
        over_threshold=rule is not None and sequences > rule.pause_above,
        paused=rule is not None and is_over(rule, over=run.over_tolerance, queued=sequences),
        served_steps=run.served_steps,
        admission_remaining=remaining,
        running=running,
        admission_capacity=max(0, remaining - running),
    )


_running: list[Callable[[int], int]] = []


def count_running_with(counter: Callable[[int], int]) -> None:
    """Register ``counter(run_id)``, which returns the items started and not delivered.

    Apps that manage producers register in ``AppConfig.ready``.
    """
    if counter not in _running:
        _running.append(counter)


def running_items(run_id: int) -> int:
    """Return the number of items that producers report as started and not delivered."""
    return sum(counter(run_id) for counter in _running)


def batch_in_sight(run_id: int, *, identity: str, count: int | None) -> bool:
    """Return whether a lease may succeed, or the request itself must be recorded.

    One read without a lock, for waiting requests, because most pushes do not complete a batch. It
    also counts stale items, so a positive result is not certain; a negative result is.

    Args:
        run_id: The run.
        identity: Identity of the requester.
        count: Items per batch; by default the run's batch size.
    """
    asked = {"run": run_id, "identity": identity, "count": count}
    with storage.cursor() as cursor:
        row = cursor.execute(_BATCH_IN_SIGHT, asked, prepare=True).fetchone()
    return row is not None and bool(row[0])


def is_drained(run_id: int) -> bool:
    """Return whether no batch is leased and the queued items do not fill one."""
    run = Run.objects.get(pk=run_id)
    rows = counts(run_id, kind_of(run), fate__in=[Fate.QUEUED, Fate.LEASED])
    leased = sum(row.items for row in rows if row.fate == Fate.LEASED)
    queued = sum(row.sequences for row in rows if row.fate == Fate.QUEUED)
    return leased == 0 and queued < (run.batch_size or 1)


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
            and (row.env_id == asking or is_heard(row.last_seen_at, now=now)),
        )
        for row in environments
    ]


def queued_by_environment_and_size(run_id: int) -> Counter[tuple[int | None, int]]:
    """Return the number of queued groups by environment (None: without one) and size."""
    queued: Counter[tuple[int | None, int]] = Counter()
    for count in counts(run_id, ItemKind.GROUPS, fate=Fate.QUEUED):
        queued[None if count.env_id < 0 else count.env_id, count.size] += count.items
    return queued


def ledger(run_id: int, kind: ItemKind) -> Ledger:
    """Return the ledger of a run's items of one kind, from the counts."""
    return balance((row.fate, row.reason, row.items) for row in counts(run_id, kind))


def true_ledger(run_id: int, kind: ItemKind) -> Ledger:
    """Return the ledger by counting all rows; for checks, too slow for requests."""
    model = TrajectoryGroup if kind is ItemKind.GROUPS else FragmentChunk
    rows = model.objects.filter(run_id=run_id).values("state", "drop_reason")
    found = [
        (row["state"], row["drop_reason"], row["items"])
        for row in rows.annotate(items=Count("id")).order_by()
    ]
    total = sum(items for _, _, items in found)
    return balance([(ACCEPTED, "", total), *found])


def miscounts(run_id: int) -> list[str]:
    """Return the differences between a run's counts and rows; empty if there are none."""
    return [
        f"{kind}: counted {counted}, found {found}"
        for kind in ItemKind
        if (counted := ledger(run_id, kind)) != (found := true_ledger(run_id, kind))
        or not counted.balanced
    ]


def _kind_ledger(run_id: int, kind: ItemKind) -> KindLedger:
    found = ledger(run_id, kind)
    return KindLedger(**asdict(found), balanced=found.balanced)


def ledger_part(run_id: int) -> LedgerPart:
    """Return the ledger for the live page, with the mismatch found by the last audit."""
    problem = Run.objects.filter(pk=run_id).values_list("ledger_problem", flat=True).first()
    return LedgerPart(
        groups=_kind_ledger(run_id, ItemKind.GROUPS),
        fragments=_kind_ledger(run_id, ItemKind.FRAGMENTS),
        problem=problem or "",
    )


def queue_part(run_id: int) -> QueueDepth | None:
    """Return the queue depth for the live page, or None if the run no longer exists."""
    return queue_depth(run_id) if Run.objects.filter(pk=run_id).exists() else None


def uses_of(batch: Batch) -> list[tuple[int, float]]:
    """Return id and importance weight of each item of a sampled batch, in order."""
    with storage.cursor() as cursor:
        return cursor.execute(_USES, [batch.pk], prepare=True).fetchall()


def batches(*, run_id: int, limit: int, before: int | None = None, state: str = "") -> list[Batch]:
    """Return a run's batches, newest first; `before` limits ordinals, `state` filters."""
    rows = Batch.objects.filter(run_id=run_id).select_related("trainer").order_by("-ordinal")
    if before is not None:
        rows = rows.filter(ordinal__lt=before)
    if state:
        rows = rows.filter(state=state)
    return list(rows[:limit])


def limits() -> Limits:
    """Return the limits of this server."""
    return Limits.read_from(settings)


def item_sizes(batch: Batch) -> list[int]:
    """Return the number of sequences of each group of a batch in order; 1 for fragments."""
    if batch.kind == ItemKind.FRAGMENTS:
        return [1] * batch.items
    rows = TrajectoryGroup.objects.filter(batch=batch).order_by("position")
    return list(rows.values_list("sequences", flat=True))
