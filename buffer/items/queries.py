"""Counts, ledgers and admission of a run, read without scans."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum
from msgspec import structs

from buffer.items.models import Batch, FragmentChunk, LedgerAudit, Tally, TrajectoryGroup
from buffer.items.rules.exact_fill import reachable_sums
from buffer.items.rules.ledger import (
    ACCEPTED,
    FAILED,
    LOSSES,
    LOST,
    REFILLED,
    TRUNCATED,
    Ledger,
    RolloutLosses,
    balance,
    discrepancies,
)
from buffer.items.rules.limits import Limits
from buffer.items.rules.states import (
    DROP_CAUSES,
    OPEN,
    BatchState,
    DropReason,
    ItemKind,
    ItemState,
)
from buffer.items.schemas import EnvironmentLedger, KindLedger, LedgerPart
from runs.config.rules.sections import largest_group, shrinks
from runs.lifecycle.models import Environment, Run, RunKind
from runs.lifecycle.rules import (
    ACTIVE,
    NO_POLICY_STEP,
    admission_capacity,
    batches_ahead,
    trained_steps,
)
from web import sql
from web.snapshots import snapshot
from web.sql import first_row, statements_of

# Remaining admission of a run, from one sum over its counts.

SQL: Final = statements_of("buffer")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAmounts:
    """Items that a run holds, of the kind that it accepts."""

    open_items: int
    """Items neither served nor dropped, of all epochs."""
    open_bytes: int
    """Bytes of the open items of both kinds."""
    queued_items: int
    """Queued items of the run's epoch."""
    admitted: int
    """Sequences or fragments accepted and not dropped, of the epochs that share versions."""
    trained: int
    """Train steps, as counted by the run's policy versions."""


def kind_of(run: Run) -> ItemKind:
    """Return the kind of items that a run accepts."""
    return ItemKind.GROUPS if run.takes_groups else ItemKind.FRAGMENTS


def stored_amounts(run: Run) -> StoredAmounts:
    """Return the stored amounts of a run, with one query."""
    parameters: dict[str, Any] = {
        "run": run.pk,
        "kind": str(kind_of(run)),
        "open": [str(state) for state in OPEN],
        "epoch": run.epoch,
        # If batches count as versions, all epochs share them.
        "any_epoch": run.kind == RunKind.OUTSIDE and run.policy_step <= NO_POLICY_STEP,
        "policy_step": run.policy_step,
    }
    with sql.cursor() as cursor:
        row = cursor.execute(SQL["stored_amounts"], parameters, prepare=True).fetchone()
    assert row is not None  # noqa: S101 a sum has a row
    open_items, open_bytes, queued_items, admitted, first_step = row
    return StoredAmounts(
        open_items=open_items,
        open_bytes=open_bytes,
        queued_items=queued_items,
        admitted=admitted,
        trained=_trained(run, first_step=first_step),
    )


def _trained(run: Run, *, first_step: int | None) -> int:
    if run.policy_step <= NO_POLICY_STEP:
        return run.served_steps if run.kind == RunKind.OUTSIDE else 0
    if run.policy_step <= 0:
        return 0
    return trained_steps(policy_step=run.policy_step, first_step=first_step or 0)


def admission(run: Run, *, admitted: int, trained: int) -> int:
    """Return how many more items a run accepts; for the arguments see :class:`StoredAmounts`."""
    if run.batch_size is None:
        return 0
    return admission_capacity(
        batches_ahead=batches_ahead(
            max_staleness=run.max_staleness, off_policy_tolerance=run.off_policy_tolerance
        ),
        trained=trained,
        per_batch=run.batch_size,
        accepted=admitted,
        running=0,
    )


def admission_remaining(run_id: int) -> int:
    """Return how many more items may arrive without becoming too stale.

    Counts sequences for external runs, fragments for fleets. Items already started are not
    subtracted, because a fleet knows their current number better than its last report says.
    Dropped items are never trained on, so they take no room.

    Raises:
        Run.DoesNotExist: If the run no longer exists.
    """
    run = first_row(Run, "id = %s", [run_id])
    if run is None:
        raise Run.DoesNotExist(f"run {run_id} does not exist")
    held = stored_amounts(run)
    remaining = admission(run, admitted=held.admitted, trained=held.trained)
    if remaining <= 0 and shrinks(run.config) and not _can_fill(run):
        # No sizes in the queue sum to a batch. A further group may, and nothing else would.
        return largest_group(run.config)
    return remaining


def _can_fill(run: Run) -> bool:
    """Return whether queued groups, or the batches that a trainer holds, make progress possible."""
    rows = counts(run.pk, ItemKind.GROUPS, state__in=[ItemState.QUEUED, ItemState.LEASED])
    if run.batch_size is None or any(row.state == ItemState.LEASED and row.items for row in rows):
        return True
    sizes = Counter[int]()
    for row in rows:
        if row.epoch == run.epoch:
            sizes[row.size] += row.items
    found = {size: items for size, items in sizes.items() if size and items > 0}
    return bool(reachable_sums(found, run.batch_size) >> run.batch_size & 1)


# Groups that were accepted and dropped at once, which nothing but a count shows.

RECENT: Final = timedelta(minutes=10)
NEWEST: Final = 200
"""Newest groups of a run of which the share is taken."""
FEWEST: Final = 20
"""Minimum number of dropped groups."""
SHARE: Final = 0.2
ALL: Final = 0.95
"""Share from which dropped groups without variance are reported; smaller ones are normal."""
RUNS_AT_MOST: Final = 100
REMEDIES: Final[dict[str, str]] = {
    DropReason.FUTURE: "Push `epoch` and `policy_step` as the inference server reports them, and "
    "only versions that this run's trainer has published.",
    DropReason.STALE_EPOCH: "Load the run's present weights into the inference server.",
    DropReason.OVERLONG: "Sample shorter answers, or set `overlong_sequences` to `truncate` or "
    "`keep`.",
    DropReason.ZERO_VARIANCE: "Choose other problems or a finer reward, or turn "
    "`drop_zero_variance` off.",
}


class ArrivalDrops(NamedTuple):
    """Groups of a run that were dropped when they arrived."""

    run_id: int
    run: str
    reason: str
    dropped: int
    groups: int
    """Newest groups, of which `dropped` were dropped for the reason."""

    @property
    def words(self) -> str:
        """Number, reason and its meaning."""
        return (
            f"{self.dropped:,} of the newest {self.groups:,} groups were dropped on arrival as "
            f"`{self.reason}`: {DROP_CAUSES[self.reason]}"
        )

    @property
    def remedy(self) -> str:
        """Change that prevents the drops."""
        return REMEDIES[self.reason]


def arrival_drops(*, now: datetime, run_id: int | None = None) -> list[ArrivalDrops]:
    """Return the active runs that drop many of their newest groups on arrival.

    Args:
        now: Present time.
        run_id: The run; None for all.
    """
    params: dict[str, Any] = {
        "since": now - RECENT,
        "newest": NEWEST,
        "active": sorted(ACTIVE),
        "run": run_id,
        "reasons": [str(reason) for reason in REMEDIES],
        "most": RUNS_AT_MOST,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["arrival_drops"], params)
        found = [ArrivalDrops(*row) for row in cursor.fetchall()]
    return [
        one
        for one in found
        if one.dropped >= FEWEST
        and one.dropped / one.groups > (ALL if one.reason == DropReason.ZERO_VARIANCE else SHARE)
    ]


# Queue depth, ledgers and limits of a run, read from counts without scans.


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


def accepted_items(run_id: int) -> int:
    """Return the number of items that a run has accepted."""
    kinds = (counts(run_id, kind, state=ACCEPTED) for kind in ItemKind)
    return sum(count.items for rows in kinds for count in rows)


def stored_bytes(kind: ItemKind, run_id: int) -> int:
    """Return the size of the items that a run has accepted, those removed by retention included."""
    return sum(count.size_bytes for count in counts(run_id, kind, state__in=list(ItemState)))


def open_items(run_id: int, kind: ItemKind) -> int:
    """Return the number of a run's items that are neither served nor dropped."""
    return sum(count.items for count in counts(run_id, kind, state__in=OPEN))


def queued_groups(run_id: int) -> int:
    """Return the number of queued groups."""
    return sum(count.items for count in counts(run_id, ItemKind.GROUPS, state=ItemState.QUEUED))


def queued_fragments(run_id: int, epoch: int) -> int:
    """Return the number of queued fragments of an epoch."""
    with sql.cursor() as cursor:
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


def losses_in(rows: Iterable[CountRow]) -> RolloutLosses:
    """Return the rollouts that failed, or were lost with their group, from the counts."""
    failed, by_state = Counter[str](), Counter[str]()
    for row in rows:
        by_state[row.state] += row.items
        if row.state == FAILED:
            failed[row.reason] += row.items
    return RolloutLosses(
        failed=dict(sorted(failed.items())),
        refilled=by_state[REFILLED],
        lost_siblings=by_state[LOST],
    )


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
        losses = losses_in(groups)
        environments = Environment.objects.filter(run_id=run_id, refused__isnull=False)
        counted = [(run[1] if run else None), *environments.values_list("refused", flat=True)]
        return LedgerPart(
            groups=kind_ledger(balance((row.state, row.reason, row.items) for row in groups)),
            fragments=kind_ledger(ledger(run_id, ItemKind.FRAGMENTS)),
            sequences=kind_ledger(sequences_ledger(groups)),
            expired=expired_amount(run_id),
            truncated=sum(row.items for row in groups if row.state == TRUNCATED),
            failed=losses.failed,
            refilled=losses.refilled,
            lost_siblings=losses.lost_siblings,
            refused=sum(
                reason["pushes"] for reasons in counted if reasons for reason in reasons.values()
            ),
            problem=run[0] if run else "",
        )


def server_limits() -> Limits:
    """Return the limits of this server."""
    return Limits.read_from(settings)


# Audits of a run's ledger, and ledgers by environment.

AUDIT_EVERY: Final = timedelta(seconds=30)
# Maximum fraction of time spent on counting the rows of a run, which may take long.
AUDIT_SHARE: Final = 0.005


def ledgers_by_environment(run_id: int) -> list[EnvironmentLedger]:
    """Return the ledger of each environment of a run, from the counts."""
    found = []
    for kind in ItemKind:
        places: dict[tuple[int, str], list[CountRow]] = defaultdict(list)
        for row in counts(run_id, kind):
            if row.state not in LOSSES:
                places[row.env_id, row.environment].append(row)
        found += [
            EnvironmentLedger(
                kind=kind.value,
                env_id=None if env_id < 0 else env_id,
                environment=environment,
                sequences=kind_ledger(sequences_ledger(rows)),
                **structs.asdict(
                    kind_ledger(balance((row.state, row.reason, row.items) for row in rows))
                ),
            )
            for (env_id, environment), rows in sorted(places.items())
        ]
    return found


def ledger_problems(run_id: int) -> list[str]:
    """Return mismatches between a run's counts and rows; empty if there are none."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["both_ledgers"], {"run": run_id})
        found = cursor.fetchall()
    problems = []
    for kind in ItemKind:
        counted, rows = (
            [(row[2], row[3], int(row[4])) for row in found if row[:2] == (source, kind)]
            for source in ("counts", "rows")
        )
        rows.append((ACCEPTED, "", sum(items for _, _, items in rows)))
        wrong = discrepancies(counted=balance(counted), found=balance(rows))
        problems += [f"{kind}: {problem}" for problem in wrong]
    return problems


def audits_due(*, now: datetime) -> list[tuple[int, str]]:
    """Return (run id, fingerprint of its counts) of runs to audit, least recently audited first.

    A run is due if its counts have changed since its last audit and enough time has passed,
    relative to the cost of an audit.
    """
    limits: dict[str, Any] = {
        "every": AUDIT_EVERY.total_seconds(),
        "share": AUDIT_SHARE,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["audits_due"], limits)
        return list(cursor.fetchall())


def last_audit(run: Run) -> LedgerAudit | None:
    """Return the last audit of a run's ledger, or None before the first."""
    return LedgerAudit.objects.filter(run=run).first()
