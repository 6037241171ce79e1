"""Counts, batches, locks and audits of items.

Counts of items, updated in the transaction of every change.

Each transaction adds its changes as its last write, in one statement and in a fixed order. Counts
are therefore exact, writers do not deadlock, and readers sum few rows.

Use counts of sampled fragments.

`uses` counts the batches that hold or held a fragment and were not dropped; `confirmed` counts
those that were trained on. A queued fragment may be sampled again; a leased one may not, and waits
for its last open batch.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from django.db import connection, transaction
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from buffer.items.models import Batch, LedgerAudit, ShortGroup
from buffer.items.queries import audits_due, ledger_problems
from buffer.items.rules.ledger import (
    ACCEPTED,
    FAILED,
    LOST,
    REFILLED,
    TRUNCATED,
    RolloutLosses,
)
from buffer.items.rules.states import (
    NO_ENVIRONMENT,
    UNSETTLED_BATCHES,
    BatchState,
    ItemKind,
    ItemState,
)
from runs.events.services import record_event
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.rules import PolicyVersion
from web import sql
from web.live.announcements import announce
from web.sql import filled, statements_of

# Audits of ledgers, which report lost or double-counted items.

RUNS_AT_ONCE: Final = 50


def audit_ledgers(*, now: datetime) -> int:
    """Audit the ledgers of runs that are due; return the number with mismatches."""
    due = audits_due(now=now)[:RUNS_AT_ONCE]
    return sum(audit_ledger(run_id=run_id, counts_md5=md5, now=now) for run_id, md5 in due)


def audit_ledger(*, run_id: int, counts_md5: str, now: datetime) -> bool:
    """Compare a run's counts with its rows; return whether they differ.

    Only a change between balanced and unbalanced records an event.
    """
    began = time.monotonic()
    problem = "; ".join(ledger_problems(run_id))
    took = time.monotonic() - began
    with transaction.atomic():
        LedgerAudit.objects.update_or_create(
            run_id=run_id,
            defaults={"audited_at": now, "took_seconds": took, "counts_md5": counts_md5},
        )
        run = Run.objects.select_for_update(no_key=True).get(pk=run_id)
        if run.ledger_problem != problem:
            Run.objects.filter(pk=run_id).update(ledger_problem=problem)
            announce(run_id, "run", "ledger")
        if bool(run.ledger_problem) is not bool(problem):
            record_event(
                run_id=run_id,
                kind="ledger_unbalanced" if problem else "ledger_balanced",
                level="error" if problem else "info",
                message=f"the ledger does not balance: {problem}"
                if problem
                else "the ledger balances again",
                actor="buffer",
                now=now,
            )
    return bool(problem)


# Rows of new batches, made from the rows of their items in one statement.


class ItemsMoved(RuntimeError):
    """Queued items of a run were moved without its lock."""


def insert_batch(
    statement: str,
    run: Run,
    trainer: Trainer,
    *,
    kind: ItemKind,
    sender: str,
    current: PolicyVersion,
    batch_id: uuid.UUID | None = None,
    sampler: str = "",
    composition: dict[str, int] | None = None,
    shares: dict[str, float] | None = None,
    **values: Any,
) -> Batch:
    """Create a batch with the run's next ordinal, leased to a trainer.

    Args:
        statement: Statement with the CTEs ``moved`` and `insert_batch`.
        run: The run.
        trainer: The trainer that gets the batch.
        kind: Kind of the items.
        sender: The process that will send it, if it must record the delivery.
        current: Version in force, from which the staleness of items is measured.
        batch_id: Id of the batch; by default a new one.
        sampler: Name of the sampler; empty for a batch from the queue.
        composition: Sequences by environment; None counts the items of each environment.
        shares: Target shares by environment.
        values: Further parameters of the statement.
    """
    batch = Batch(
        id=batch_id or uuid.uuid4(),
        run=run,
        kind=kind,
        ordinal=run.served_steps + 1,
        state=BatchState.LEASED,
        epoch=run.epoch,
        policy_step=run.policy_step,
        trainer=trainer,
        fence=1,
        sender=sender,
        sampler=sampler,
        shares=shares or {},
    )
    parameters = {
        "batch": batch.pk,
        "run": run.pk,
        "kind": str(kind),
        "ordinal": batch.ordinal,
        "epoch": batch.epoch,
        "policy_step": batch.policy_step,
        "trainer": trainer.pk,
        "lease_seconds": run.lease_seconds,
        "sender": sender,
        "sampler": sampler,
        "shares": Jsonb(batch.shares),
        "composition": None if composition is None else Jsonb(composition),
        "current_epoch": current.epoch,
        "current_step": current.step,
        **values,
    }
    with sql.cursor(dict_row) as cursor:
        # Prepared, because PostgreSQL takes longer to plan this statement than to run it.
        row = cursor.execute(statement.encode(), parameters, prepare=True).fetchone()
    for name, value in (row or {}).items():
        setattr(batch, name, value)
    batch.composition, batch.staleness = json.loads(batch.composition), json.loads(batch.staleness)
    return batch


# Advisory locks that serialise work on one run, held until the end of the transaction.

SQL: Final = statements_of("buffer")


def lock_run(run_id: int) -> datetime:
    """Lock the forming, leasing and settling of a run's batches until the transaction ends.

    Returns the database time at which the lock was acquired.
    """
    with sql.cursor() as cursor:
        row = cursor.execute(SQL["lock_run"], [run_id], prepare=True).fetchone()
    assert row is not None  # noqa: S101 a query without FROM has a row
    locked_at: datetime = row[1]
    return locked_at


def lock_slots(run_id: int, slots: set[str]) -> None:
    """Lock the forming of chunks of these slots until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["lock_slots"], [[f"{run_id}:{slot}" for slot in slots]])


SHARDS: Final = 8
"""Rows of each count; `add_changes` chooses one by the process of the database."""
_QUEUES: Final = frozenset({ItemState.QUEUED, ItemState.WAITING})

TABLES: Final = {
    ItemKind.GROUPS: "buffer_trajectorygroup",
    ItemKind.FRAGMENTS: "buffer_fragmentchunk",
}
"""Table of the items of each kind."""
MOVED: Final = {
    ItemKind.GROUPS: """i.epoch, i.env_id, '' AS environment, i.sequences, i.size_bytes, i.tokens,
        i.longest_tokens, i.policy_step""",
    ItemKind.FRAGMENTS: """i.epoch, NULL::int AS env_id, i.environment, 1 AS sequences,
        i.size_bytes, 0 AS tokens, 0 AS longest_tokens, i.version_min AS policy_step""",
}
"""Columns of a row ``i`` for the CTE ``moved`` of `count_moved` and of new batches."""


class Counted(NamedTuple):
    """The attributes of an item that the counts group by and sum.

    `env_id` is the environment of a group, `environment` the one of a fragment.
    """

    epoch: int
    env_id: int | None
    sequences: int
    size_bytes: int = 0
    environment: str = ""


# Columns of a row for :func:`counted`, in order.
COUNTED: Final = {
    ItemKind.GROUPS: ("epoch", "size_bytes", "env_id", "sequences"),
    ItemKind.FRAGMENTS: ("epoch", "size_bytes", "environment"),
}


def counted(epoch: int, size_bytes: int, where: int | str | None, sequences: int = 1) -> Counted:
    """Return the contribution to the counts of a row with the columns of :data:`COUNTED`."""
    if isinstance(where, str):
        return Counted(epoch, None, 1, size_bytes, where)
    return Counted(epoch, where, sequences, size_bytes)


# state, reason, epoch, env_id, environment, size
_Key = tuple[str, str, int, int, str, int]
_COLUMNS: Final = (
    *("state", "reason", "epoch", "env_id", "environment", "size"),
    *("items", "sequences", "size_bytes"),
)


class Changes:
    """Collects the changes of one transaction in one run, to write them once."""

    def __init__(self, run_id: int, kind: ItemKind) -> None:
        self._run_id = run_id
        self._kind = kind
        self._items: Counter[_Key] = Counter()
        self._sequences: Counter[_Key] = Counter()
        self._bytes: Counter[_Key] = Counter()

    def accept(self, items: Iterable[Counted], state: ItemState, *, reason: str = "") -> None:
        """Count accepted items, which are now in state `state`."""
        for item in items:
            self._add(item, ACCEPTED, "", 1)
            self._add(item, state, reason, 1)

    def lose(self, losses: RolloutLosses, *, epoch: int) -> None:
        """Count the rollouts of short groups, which are no items."""
        rows = [(FAILED, kind[:KIND_LENGTH], count) for kind, count in losses.failed.items()]
        rows += [(REFILLED, "", losses.refilled), (LOST, "", losses.lost_siblings)]
        for state, reason, count in rows:
            if count:
                key = (state, reason, epoch, NO_ENVIRONMENT, "", 0)
                self._items[key] += count
                self._sequences[key] += count

    def truncate(self, items: Iterable[Counted]) -> None:
        """Count accepted items whose sequences were truncated."""
        for item in items:
            self._add(item, TRUNCATED, "", 1)

    def move(
        self, items: Iterable[Counted], source: ItemState, to: ItemState, *, reason: str = ""
    ) -> None:
        """Count items that moved from one state to another."""
        for item in items:
            self._add(item, source, "", -1)
            self._add(item, to, reason, 1)

    def _add(self, item: Counted, state: str, reason: str, count: int) -> None:
        env_id = NO_ENVIRONMENT if item.env_id is None else item.env_id
        size = item.sequences if state in _QUEUES and self._kind == ItemKind.GROUPS else 0
        key = (state, reason, item.epoch, env_id, item.environment, size)
        self._items[key] += count
        self._sequences[key] += count * item.sequences
        self._bytes[key] += count * item.size_bytes

    def rows(self) -> list[dict[str, Any]]:
        sums = (self._items, self._sequences, self._bytes)
        return [
            dict(zip(_COLUMNS, (*key, *(summed[key] for summed in sums)), strict=True))
            for key in self._items
            if any(summed[key] for summed in sums)
        ]

    def params(self) -> dict[str, Any]:
        """Return the parameters of a statement that adds the changes."""
        return {
            "run": self._run_id,
            "kind": str(self._kind),
            "counts": msgspec.json.encode(self.rows()).decode(),
        }

    def sequences(self, state: str, *, epoch: int) -> int:
        """Return the change of a state's sequences or fragments in an epoch."""
        return sum(
            summed
            for (changed, _, of_epoch, *_), summed in self._sequences.items()
            if changed == state and of_epoch == epoch
        )

    def write(self) -> None:
        """Add the changes to the counts."""
        if not self._items:
            return
        with sql.cursor() as cursor:
            cursor.execute(SQL["count_changes"], self.params(), prepare=True)


KIND_LENGTH: Final = 20
SHORT_GROUPS_KEPT: Final = 5000
"""Newest short groups of a run that are kept."""


def record_losses(
    run_id: int, losses: RolloutLosses, groups: Iterable[ShortGroup], *, epoch: int
) -> None:
    """Count rollouts that failed or were lost with their group, and keep the short groups.

    The caller has a transaction, in which this is the last write to the counts.
    """
    keep_short_groups(run_id, groups)
    changes = Changes(run_id, ItemKind.GROUPS)
    changes.lose(losses, epoch=epoch)
    changes.write()


def keep_short_groups(run_id: int, groups: Iterable[ShortGroup]) -> None:
    """Store short groups of a run, and delete those beyond the newest."""
    if not ShortGroup.objects.bulk_create(groups):
        return
    newest = ShortGroup.objects.filter(run_id=run_id).order_by("-pk")
    older = newest.values_list("pk", flat=True)[SHORT_GROUPS_KEPT : SHORT_GROUPS_KEPT + 1]
    # Ids rise, so that one id bounds the older rows.
    if bound := next(iter(older), None):
        ShortGroup.objects.filter(run_id=run_id, pk__lte=bound).delete()


_ADD_USES_BY_KEY: Final = {
    chunked: filled(SQL["add_uses"], key=key) for chunked, key in ((False, "id"), (True, "chunk"))
}
# environment, size_bytes, state
UsedRow = tuple[str, int, str]


def add_sampled_chunks(
    batch_id: UUID, ids: list[int], weights: list[float], *, max_reuse: int, chunked: bool
) -> list[UsedRow]:
    """Add sampled chunks to a batch, in order, and return a row per fragment.

    Args:
        batch_id: The batch; its row may be written afterwards.
        ids: Ids of fragments, or of chunks if `chunked`.
        weights: Importance weight of each id.
        max_reuse: Number of uses after which a fragment is no longer sampled.
        chunked: Whether a chunk has several fragments.
    """
    with sql.cursor() as cursor:
        cursor.execute(
            _ADD_USES_BY_KEY[chunked],
            {"batch": batch_id, "ids": ids, "weights": weights, "max_reuse": max_reuse},
            prepare=True,
        )
        rows: list[UsedRow] = cursor.fetchall()
    return rows


def confirm_sample(batch: Batch) -> None:
    """Settle a sampled batch as trained on, and acknowledge its uses."""
    unsettled = [str(state) for state in UNSETTLED_BATCHES]
    _settle(batch, SQL["confirm_sample"], {"batch": batch.pk, "unsettled": unsettled})


def return_sample(batch: Batch) -> None:
    """Return the uses of a sampled batch; the caller settles the batch."""
    _settle(batch, SQL["return_uses"], {"batch": batch.pk})


def _settle(batch: Batch, query: str, parameters: dict[str, Any]) -> None:
    with sql.cursor() as cursor:
        cursor.execute(query.encode(), parameters, prepare=True)
        moved = cursor.fetchall()
    changes = Changes(batch.run_id, ItemKind.FRAGMENTS)
    for source, to, *columns in moved:
        if source != to:
            changes.move([counted(*columns)], ItemState(source), ItemState(to))
    changes.write()
