"""Queue depth, ledgers and limits of a run, read from counts without scans."""

from dataclasses import asdict
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import Count, Sum

from buffer.items.models.items import FragmentChunk, Tally, TrajectoryGroup
from buffer.items.rules.ledger import ACCEPTED, TRUNCATED, Ledger, balance
from buffer.items.rules.limits import Limits
from buffer.items.rules.states import OPEN, ItemKind, ItemState
from buffer.items.schemas.ledgers import KindLedger, LedgerPart
from runs.lifecycle.models.runs import Run
from web import database

_QUEUED_FRAGMENTS: Final = """
    SELECT COALESCE(SUM(items), 0)::bigint FROM buffer_tally
    WHERE run_id = %s AND kind = 'fragments' AND state = 'queued' AND epoch = %s"""
_USES: Final = """
    SELECT item_id, importance_weight FROM buffer_batchuse
    WHERE batch_id = %s ORDER BY position"""


class CountRow(NamedTuple):
    """A count, summed over its shards."""

    state: str
    reason: str
    epoch: int
    env_id: int
    environment: str
    size: int
    items: int
    sequences: int
    size_bytes: int


def counts(run_id: int, kind: ItemKind, **which: Any) -> list[CountRow]:
    """Return the counts of a run's items of one kind."""
    rows = (
        Tally.objects.filter(run_id=run_id, kind=kind, **which)
        .values_list("state", "reason", "epoch", "env_id", "environment", "size")
        .annotate(Sum("items"), Sum("sequences"), Sum("size_bytes"))
    )
    return [CountRow(*row) for row in rows.order_by()]


def open_items(run_id: int, kind: ItemKind) -> int:
    """Return the number of a run's items that are neither served nor dropped."""
    return sum(count.items for count in counts(run_id, kind, state__in=OPEN))


def queued_groups(run_id: int) -> int:
    """Return the number of queued groups."""
    return sum(count.items for count in counts(run_id, ItemKind.GROUPS, state=ItemState.QUEUED))


def queued_fragments(run_id: int, epoch: int) -> int:
    """Return the number of queued fragments of an epoch."""
    with database.cursor() as cursor:
        row = cursor.execute(_QUEUED_FRAGMENTS, [run_id, epoch], prepare=True).fetchone()
    return 0 if row is None else int(row[0])


def truncated_groups(run_id: int) -> int:
    """Return the number of groups accepted with truncated sequences."""
    return sum(count.items for count in counts(run_id, ItemKind.GROUPS, state=TRUNCATED))


def ledger(run_id: int, kind: ItemKind) -> Ledger:
    """Return the ledger of a run's items of one kind, from the counts."""
    return balance((row.state, row.reason, row.items) for row in counts(run_id, kind))


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


def _kind_ledger(run_id: int, kind: ItemKind) -> KindLedger:
    found = ledger(run_id, kind)
    return KindLedger(**asdict(found), balanced=found.balanced)


def ledger_part(run_id: int) -> LedgerPart:
    """Return the ledger for the live page, with the mismatch found by the last audit."""
    problem = Run.objects.filter(pk=run_id).values_list("ledger_problem", flat=True).first()
    return LedgerPart(
        groups=_kind_ledger(run_id, ItemKind.GROUPS),
        fragments=_kind_ledger(run_id, ItemKind.FRAGMENTS),
        truncated=truncated_groups(run_id),
        problem=problem or "",
    )


def limits() -> Limits:
    """Return the limits of this server."""
    return Limits.read_from(settings)
