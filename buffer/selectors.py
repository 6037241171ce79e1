"""Answer questions about the queue from counts, never from a scan."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum

from buffer import storage
from buffer.core.fates import OPEN, Fate, ItemKind
from buffer.core.ledger import ACCEPTED, Ledger, balance
from buffer.core.limits import Limits
from buffer.core.status_env import EnvironmentShare, EnvironmentStatus, environment_status
from buffer.models import Batch, FragmentChunk, Segment, Tally, TrajectoryGroup
from rolldeck.wire import Fragment
from runs.core.versions import admission_capacity
from runs.models import Environment, Run, RunKind

PREVIEW_BYTES: Final = 4096
DECODED_BYTES: Final = 1 << 20


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


class UnknownEnvironmentId(Exception):
    """The run has no environment with this id."""


class CountRow(NamedTuple):
    """A count, summed over its shards."""

    fate: str
    reason: str
    epoch: int
    env_id: int
    size: int
    items: int
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """How much waits in a run; sizes count items, sequences and batches as named."""

    queued: int
    queued_sequences: int
    waiting: int
    leased: int
    threshold: float
    """Sequences (or fragments) above which producers pause."""
    batch_size: int | None
    over_threshold: bool
    served_steps: int
    admission_remaining: int


def counts(run_id: int, kind: ItemKind, **which: Any) -> list[CountRow]:
    """Return the counts of a run's items of one kind."""
    rows = (
        Tally.objects.filter(run_id=run_id, kind=kind, **which)
        .values_list("fate", "reason", "epoch", "env_id", "size")
        .annotate(Sum("items"), Sum("sequences"))
    )
    return [CountRow(*row) for row in rows.order_by()]


def _kind_of(run: Run) -> ItemKind:
    return ItemKind.FRAGMENTS if run.kind == RunKind.FLEET else ItemKind.GROUPS


def open_items(run_id: int, kind: ItemKind) -> int:
    """Return how many items of a run are neither served nor dropped."""
    return sum(count.items for count in counts(run_id, kind, fate__in=OPEN))


def queued_by_size(run_id: int) -> dict[int, int]:
    """Return how many groups of each size (in sequences) are queued."""
    sizes: Counter[int] = Counter()
    for count in counts(run_id, ItemKind.GROUPS, fate=Fate.QUEUED):
        sizes[count.size] += count.items
    return {size: items for size, items in sizes.items() if items > 0}


def queued_groups(run_id: int) -> int:
    """Return how many groups are queued."""
    return sum(count.items for count in counts(run_id, ItemKind.GROUPS, fate=Fate.QUEUED))


def queued_fragments(run_id: int, epoch: int) -> int:
    """Return how many fragments of an epoch are queued."""
    rows = counts(run_id, ItemKind.FRAGMENTS, fate=Fate.QUEUED, epoch=epoch)
    return sum(count.items for count in rows)


def queue_depth(run_id: int) -> QueueDepth:
    """Return how much waits in a run."""
    run = Run.objects.get(pk=run_id)
    rows = counts(run_id, _kind_of(run))
    items: Counter[str] = Counter()
    for row in rows:
        items[row.fate] += row.items
    sequences = sum(row.sequences for row in rows if row.fate == Fate.QUEUED)
    threshold = run.off_policy_tolerance * (run.batch_size or 0)
    return QueueDepth(
        queued=items[Fate.QUEUED],
        queued_sequences=sequences,
        waiting=items[Fate.WAITING],
        leased=items[Fate.LEASED],
        threshold=threshold,
        batch_size=run.batch_size,
        over_threshold=run.batch_size is not None and sequences > threshold,
        served_steps=run.served_steps,
        admission_remaining=_admission(run, rows),
    )


def admission_remaining(run_id: int) -> int:
    """Return how many more fragments may come in without any becoming too stale.

    Items that were dropped will train nothing, so they take no room.
    """
    run = Run.objects.get(pk=run_id)
    return _admission(run, counts(run_id, ItemKind.FRAGMENTS, epoch=run.epoch))


def _admission(run: Run, rows: list[CountRow]) -> int:
    if run.batch_size is None:
        return 0
    signs = {ACCEPTED: 1, Fate.DROPPED: -1}
    admitted = sum(signs.get(row.fate, 0) * row.items for row in rows if row.epoch == run.epoch)
    return admission_capacity(
        max_staleness=run.max_staleness,
        policy_step=run.policy_step,
        per_batch=run.batch_size,
        accepted=admitted,
        running=0,
    )


def batch_in_sight(run_id: int, *, identity: str, count: int | None) -> bool:
    """Return whether asking for a batch may be worth it, or the asking itself must be noted.

    One read without a lock, for those who wait: most pushes do not complete a batch. Counts the
    stale as well, so a yes is no promise; a no is sure.

    Args:
        run_id: The run.
        identity: Who asks.
        count: Items of a batch, by default the run's batch size.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BATCH_IN_SIGHT, {"run": run_id, "identity": identity, "count": count})
        row = cursor.fetchone()
    return row is not None and bool(row[0])


def is_drained(run_id: int) -> bool:
    """Return whether no batch is out and none can be made of what is queued."""
    run = Run.objects.get(pk=run_id)
    rows = counts(run_id, _kind_of(run), fate__in=[Fate.QUEUED, Fate.LEASED])
    leased = sum(row.items for row in rows if row.fate == Fate.LEASED)
    queued = sum(row.sequences for row in rows if row.fate == Fate.QUEUED)
    return leased == 0 and queued < (run.batch_size or 1)


def status_of_environment(run: Run, env_id: int) -> EnvironmentStatus:
    """Return what an environment is told of itself and the queue.

    Raises:
        UnknownEnvironmentId: If the run has no such environment.
    """
    shares = [
        EnvironmentShare(
            env_id=row.env_id,
            max_token_length=row.max_token_length,
            weight=row.weight,
            group_size=row.group_size,
            min_batch_allocation=row.min_batch_allocation,
            connected=row.connected,
        )
        for row in Environment.objects.filter(run=run)
    ]
    if env_id not in {share.env_id for share in shares}:
        raise UnknownEnvironmentId(f"this run has no environment {env_id}")
    queued: Counter[tuple[int | None, int]] = Counter()
    for count in counts(run.pk, ItemKind.GROUPS, fate=Fate.QUEUED):
        queued[None if count.env_id < 0 else count.env_id, count.size] += count.items
    return environment_status(
        env_id=env_id, environments=shares, queued=queued, batch_size=run.batch_size or 0
    )


def ledger(run_id: int, kind: ItemKind) -> Ledger:
    """Return where a run's items of one kind are, from the counts."""
    return balance((row.fate, row.reason, row.items) for row in counts(run_id, kind))


def true_ledger(run_id: int, kind: ItemKind) -> Ledger:
    """Return the same by counting every row: for checks, not for requests."""
    model = TrajectoryGroup if kind is ItemKind.GROUPS else FragmentChunk
    rows = model.objects.filter(run_id=run_id).values("state", "drop_reason")
    found = [
        (row["state"], row["drop_reason"], row["items"])
        for row in rows.annotate(items=Count("id")).order_by()
    ]
    total = sum(items for _, _, items in found)
    return balance([(ACCEPTED, "", total), *found])


def miscounts(run_id: int) -> list[str]:
    """Return how the counts of a run differ from its rows; empty when they are true."""
    return [
        f"{kind}: counted {counted}, found {found}"
        for kind in ItemKind
        if (counted := ledger(run_id, kind)) != (found := true_ledger(run_id, kind))
        or not counted.balanced
    ]


def _part(ledger_: Ledger) -> dict[str, Any]:
    return asdict(ledger_) | {"balanced": ledger_.balanced}


def ledger_part(run_id: int) -> dict[str, Any]:
    """Return the ledger as JSON values."""
    return {str(kind): _part(ledger(run_id, kind)) for kind in ItemKind}


def queue_part(run_id: int) -> dict[str, Any] | None:
    """Return the queue depth as JSON values, or None when the run is gone."""
    if not Run.objects.filter(pk=run_id).exists():
        return None
    return asdict(queue_depth(run_id))


def batches(*, run_id: int, limit: int) -> list[Batch]:
    """Return a run's batches, newest first."""
    rows = Batch.objects.filter(run_id=run_id).select_related("trainer").order_by("-ordinal")
    return list(rows[:limit])


def segments(*, limit: int) -> list[Segment]:
    """Return the segments of payloads, newest first."""
    return list(Segment.objects.order_by("-number")[:limit])


def group_preview(group_id: int) -> str:
    """Return the first part of a group's stored JSON."""
    try:
        content = storage.content_head(ItemKind.GROUPS, group_id, PREVIEW_BYTES)
    except storage.PayloadMissing as missing:
        return str(missing)
    text = content.decode(errors="replace")
    return text + (" …" if len(content) == PREVIEW_BYTES else "")


def fragment_preview(fragment_id: int) -> str:
    """Return the arrays of a fragment by name, dtype and shape."""
    try:
        content = storage.content_head(ItemKind.FRAGMENTS, fragment_id, DECODED_BYTES)
    except storage.PayloadMissing as missing:
        return str(missing)
    try:
        fragment = msgspec.msgpack.decode(content, type=Fragment)
    except msgspec.MsgspecError:
        return f"{len(content)} bytes" if content else "no bytes: it was dropped when it came in"
    return "; ".join(
        f"{name}: {array.dtype} {list(array.shape)}" for name, array in fragment.arrays.items()
    )


def limits() -> Limits:
    """Return the bounds of what this deck takes in."""
    return Limits.read_from(settings)
