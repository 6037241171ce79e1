"""Queue depth, ledgers and limits of a run, read from counts without scans."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import Count, Sum

from buffer.items.models.items import Batch, FragmentChunk, Tally, TrajectoryGroup
from buffer.items.rules.ledger import ACCEPTED, TRUNCATED, Ledger, balance
from buffer.items.rules.limits import Limits
from buffer.items.rules.states import OPEN, BatchState, ItemKind, ItemState
from buffer.items.schemas import KindLedger, LedgerPart
from runs.lifecycle.models.runs import Environment, Run
from web import database
from web.snapshots import snapshot
from web.sql import statements_of

SQL: Final = statements_of("buffer")


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
        row = cursor.execute(SQL["queued_fragments"], [run_id, epoch], prepare=True).fetchone()
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


def kind_ledger(found: Ledger) -> KindLedger:
    """Return a ledger as its API schema."""
    return KindLedger(**asdict(found), balanced=found.balanced)


def sequences_ledger(rows: Iterable[CountRow]) -> Ledger:
    """Return the ledger of counts in sequences; a fragment counts as one."""
    return balance((row.state, row.reason, row.sequences) for row in rows)


def expired_amount(run_id: int) -> int:
    """Return the sequences or fragments of batches whose lease has expired.

    Items of sampled batches stay queued, so these batches do not count.
    """
    expired = Batch.objects.filter(run_id=run_id, state=BatchState.RETURNED, sampler="")
    ids = list(expired.values_list("id", flat=True))
    if not ids:
        return 0
    leased = {"batch_id__in": ids, "state": ItemState.LEASED}
    groups = TrajectoryGroup.objects.filter(**leased).aggregate(amount=Sum("sequences"))
    return int(groups["amount"] or 0) + FragmentChunk.objects.filter(**leased).count()


def ledger_part(run_id: int) -> LedgerPart:
    """Return the ledger of a run at one moment, with the mismatch found by the last audit."""
    with snapshot():
        run = Run.objects.filter(pk=run_id).values_list("ledger_problem", "refused").first()
        groups = counts(run_id, ItemKind.GROUPS)
        return LedgerPart(
            groups=kind_ledger(balance((row.state, row.reason, row.items) for row in groups)),
            fragments=kind_ledger(ledger(run_id, ItemKind.FRAGMENTS)),
            sequences=kind_ledger(sequences_ledger(groups)),
            expired=expired_amount(run_id),
            truncated=sum(row.items for row in groups if row.state == TRUNCATED),
            refused=_refused(run_id, run[1] if run else None),
            problem=run[0] if run else "",
        )


def _refused(run_id: int, of_run: dict[str, dict[str, Any]] | None) -> int:
    environments = Environment.objects.filter(run_id=run_id, refused__isnull=False)
    counted = [of_run, *environments.values_list("refused", flat=True)]
    return sum(reason["pushes"] for reasons in counted if reasons for reason in reasons.values())


def server_limits() -> Limits:
    """Return the limits of this server."""
    return Limits.read_from(settings)
