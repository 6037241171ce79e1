"""Form batches and lease them to trainers.

An advisory lock per run, held until the end of the transaction, serialises forming. Only the
database clock evaluates leases. A web process that sends
batches is identified by machine, process id and start time, so that a reused process id is not
mistaken for it.
"""

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from psycopg.rows import dict_row

from buffer.batches.rules.deliveries import Delivery, NextAction
from buffer.batches.services.expiry import HAS_STALE_FRAGMENTS, drop_unservable
from buffer.batches.services.forming import form_and_lease, subtract_shares
from buffer.batches.services.settlement import (
    acknowledge_locked,
    confirm,
    count_restart,
    release_items,
)
from buffer.items.models import Batch
from buffer.items.rules.states import (
    OPEN_BATCHES,
    BatchNotFound,
    BatchState,
    DropReason,
    ItemKind,
    ItemState,
    LeaseLost,
    TrainerNotRegistered,
)
from buffer.items.services import lock_run
from buffer.payloads.services.contents import Reading
from runs.lifecycle.models import Run, Trainer
from runs.lifecycle.services.lifecycle import end_after_steps
from runs.lifecycle.services.registry import register_trainer
from web import sql
from web.live.announcements import announce
from web.sql import first_row, row_of, rows, statements_of

SQL: Final = statements_of("buffer")


def this_process() -> str:
    """Return the identifier of the calling process."""
    return _own_name(os.getpid())


@cache
def _own_name(pid: int) -> str:
    return _name(pid)


@cache
def _machine() -> str:
    return socket.gethostname()[:60]


def _name(pid: int) -> str:
    return f"{_machine()}:{pid}:{_began(pid)}"


def _began(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # The command in parentheses may contain spaces; the fields after it do not.
    return stat.rpartition(")")[2].split()[19]


def is_alive(sender: str) -> bool | None:
    """Return whether the process is alive; None if it is on another machine."""
    machine, _, rest = sender.rpartition(":")[0].rpartition(":")
    if machine != _machine() or not rest.isdigit():
        return None
    return _began(int(rest)) != "" and _name(int(rest)) == sender


# Resolution of `last_seen_at`; polls should usually write nothing.
SEEN_EVERY: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A batch leased to a trainer."""

    batch: Batch
    lease_seconds: float
    policy_step: int
    reading: Reading | None = None
    """The read of the items' bytes, if it began before the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedBatch:
    """A batch that a trainer acknowledges, under the fence of its lease."""

    batch_id: UUID
    fence: int


def lease_batch(
    *,
    run_id: int,
    identity: str,
    count: int | None = None,
    holding: Collection[UUID] = (),
    reads_ahead: bool = False,
    trained: TrainedBatch | None = None,
) -> Lease | None:
    """Lease a batch to a trainer that acknowledges by id: one that it lacks, else the next.

    The trainer lacks a batch that it leased and does not name in `holding`: it has restarted, or
    its last answer was lost. Leases of the batches in `holding` are renewed under their fences,
    also after they expired, until another trainer leases the batch.

    Args:
        run_id: The run.
        identity: Identity of the requester, which must be registered.
        count: Number of fragments in the batch; by default the run's batch size.
        holding: Batches that the trainer has received and not acknowledged.
        reads_ahead: Start to read the bytes of all items before they are leased.
        trained: Batch to acknowledge first, in the same transaction.

    Raises:
        TrainerNotRegistered: If no trainer of the run has this identity.
        BatchNotFound: If the run has no batch `trained`.
        LeaseLost: If `trained` has been leased again or dropped.
        OutOfOrder: If the trainer holds a batch that it received before `trained`.
    """
    with transaction.atomic():
        asked_at = lock_run(run_id)
        if trained is not None:
            acknowledge_locked(run_id=run_id, batch_id=trained.batch_id, fence=trained.fence)
        seen = lease_context(run_id, identity)
        run, trainer = seen.run, seen.trainer
        _record_request(run, trainer, is_stock=False, asked_at=asked_at)
        drop_unservable(run, has_stale_fragments=seen.has_stale_fragments)
        open_batches = _open_batches(run) if seen.has_open_batches else []
        mine = [batch for batch in open_batches if batch.trainer_id == trainer.pk]
        kept = [batch.pk for batch in mine if batch.pk in holding]
        if kept:
            with sql.cursor() as cursor:
                cursor.execute(SQL["renew_leases"], [run.lease_seconds, kept], prepare=True)
        lacking = [batch for batch in mine if batch.state == BatchState.LEASED]
        batch = next((batch for batch in lacking if batch.pk not in kept), None)
        if batch is not None and count_restart(batch, lacking, trainer, now=asked_at):
            batch = next((one for one in lacking if one.pk not in {*kept, batch.pk}), None)
        others = [batch for batch in open_batches if batch.pk not in kept]
        batch = batch or _returned_batch(run, others)
        if batch is not None:
            return _lease(run, batch, trainer, sender="")
        return _next(run, trainer, count=count, sender="", reads_ahead=reads_ahead, now=asked_at)


def lease_for_atropos(*, run_id: int, identity: str, sender: str, now: datetime) -> Lease | None:
    """Lease the next batch to a stock trainer; this acknowledges its delivered batches.

    Args:
        run_id: The run.
        identity: Identity of the requester; it is registered if it is not yet.
        sender: The process that will send the answer.
        now: Time of the request.
    """
    try:
        return _lease_for_stock(run_id, identity, sender)
    except TrainerNotRegistered:
        register_trainer(run_id=run_id, identity=identity, resume=True, now=now)
    return _lease_for_stock(run_id, identity, sender)


def _lease_for_stock(run_id: int, identity: str, sender: str) -> Lease | None:
    with transaction.atomic():
        asked_at = lock_run(run_id)
        seen = lease_context(run_id, identity)
        run, trainer = seen.run, seen.trainer
        _record_request(run, trainer, is_stock=True, asked_at=asked_at)
        open_batches = _open_batches(run) if seen.has_open_batches else []
        held = [batch for batch in open_batches if batch.trainer_id == trainer.pk]
        # Delivered batches are acknowledged; one whose answer was interrupted is sent again.
        again = None
        for batch in held:
            delivery = Delivery(
                delivered_at=batch.delivered_at,
                sending_since=batch.sending_since,
                sender_is_alive=is_alive(batch.sender),
            )
            decision = delivery.on_next_request(now=asked_at)
            if decision is NextAction.CONFIRM:
                confirm(batch)
            elif decision is NextAction.SEND_AGAIN and again is None:
                again = batch
        if again is not None and count_restart(again, held, trainer, now=asked_at):
            again = None
        drop_unservable(run)
        ready = again or _returned_batch(run, open_batches)
        if ready is not None:
            return _lease(run, ready, trainer, sender=sender)
        return _next(run, trainer, count=None, sender=sender, reads_ahead=True, now=asked_at)


def _served_run(run_id: int) -> Run:
    run = first_row(Run, "id = %s", [run_id])
    if run is None:
        raise Run.DoesNotExist(f"run {run_id} does not exist")
    return run


def _record_request(run: Run, trainer: Trainer, *, is_stock: bool, asked_at: datetime) -> None:
    if run.trainer_started_at is None:
        Run.objects.filter(pk=run.pk, trainer_started_at=None).update(trainer_started_at=Now())
        announce(run.pk, "run")
    if trainer.last_seen_at < asked_at - SEEN_EVERY or trainer.is_stock is not is_stock:
        Trainer.objects.filter(pk=trainer.pk).update(last_seen_at=Now(), is_stock=is_stock)


def _open_batches(run: Run) -> list[Batch]:
    # The same condition as in the index `batch_open`.
    return rows(Batch, "run_id = %s AND state IN ('leased', 'returned') ORDER BY ordinal", [run.pk])


def _returned_batch(run: Run, open_batches: list[Batch]) -> Batch | None:
    """Return the oldest returned batch that is not too stale; release stale ones."""
    for batch in open_batches:
        if batch.state != BatchState.RETURNED:
            continue
        if batch.kind == ItemKind.GROUPS or run.max_staleness is None:
            return batch
        oldest = max((int(versions) for versions in batch.staleness), default=0)
        if run.policy_step - batch.policy_step + oldest <= run.max_staleness:
            return batch
        release_batch(batch)
        drop_unservable(run)
    return None


def release_batch(
    batch: Batch,
    *,
    source: ItemState = ItemState.LEASED,
    doomed: Collection[int] | None = (),
    reason: DropReason | None = None,
) -> tuple[int, int]:
    """End a batch without training; return the numbers of dropped and requeued items.

    Its sequences no longer count towards the shares of their environments. For the arguments see
    :func:`buffer.batches.services.settlement.release_items`.
    """
    moved = release_items(batch, source=source, doomed=doomed, reason=reason)
    Batch.objects.filter(pk=batch.pk).update(state=BatchState.DROPPED, settled_at=Now())
    batch.state = BatchState.DROPPED
    if batch.kind == ItemKind.GROUPS:
        subtract_shares(batch)
    return moved


def _lease(run: Run, batch: Batch, trainer: Trainer, *, sender: str) -> Lease:
    """Lease an existing batch again, with a higher fence."""
    fields: dict[str, Any] = {
        "batch": batch.pk,
        "trainer": trainer.pk,
        "seconds": run.lease_seconds,
        "sender": sender,
    }
    with sql.cursor(dict_row) as cursor:
        leased = cursor.execute(SQL["lease_again"], fields).fetchone()
    for name, value in (leased or {}).items():
        setattr(batch, name, value)
    batch.state, batch.trainer = BatchState.LEASED, trainer
    batch.sender, batch.delivered_at = sender, None
    return _handed_out(run, batch)


def _handed_out(run: Run, batch: Batch, *, reading: Reading | None = None) -> Lease:
    announce(run.pk, "queue", "ledger", "run")
    return Lease(
        batch=batch,
        lease_seconds=run.lease_seconds,
        policy_step=run.policy_step,
        reading=reading,
    )


def _next(
    run: Run,
    trainer: Trainer,
    *,
    count: int | None,
    sender: str,
    reads_ahead: bool,
    now: datetime,
) -> Lease | None:
    """Form and lease a new batch, or return None if the queue does not fill one.

    After the planned number of train steps there is none, and the run drains.
    """
    if run.has_served_all_steps:
        # The planned number may have been lowered after the last batch.
        end_after_steps(run, now=now)
        return None
    formed = form_and_lease(run, trainer, sender=sender, reads_ahead=reads_ahead, count=count)
    if formed is None:
        return None
    batch, reading = formed
    run.served_steps = batch.ordinal
    if run.has_served_all_steps:
        end_after_steps(run, now=now)
    return _handed_out(run, batch, reading=reading)


def held_by(*, run_id: int, batch_id: UUID, identity: str) -> Lease:
    """Return the lease of a batch for the trainer that holds it.

    Raises:
        BatchNotFound: If the run has no such batch.
        LeaseLost: If it is not leased to this trainer.
    """
    run = _served_run(run_id)
    batch = Batch.objects.select_related("trainer").filter(run_id=run_id, pk=batch_id).first()
    if batch is None:
        raise BatchNotFound(f"batch {batch_id} does not exist")
    holder = batch.trainer.identity if batch.trainer else ""
    if batch.state != BatchState.LEASED or holder != identity:
        raise LeaseLost(f"batch {batch_id} is not leased to {identity}")
    return Lease(batch=batch, lease_seconds=run.lease_seconds, policy_step=run.policy_step)


def held_beside(*, run_id: int, identity: str, received: Collection[UUID]) -> Lease | None:
    """Return the first lease of a trainer, unchanged, that one of its ranks has not received.

    Args:
        run_id: The run.
        identity: Identity of the trainer, which all of its ranks share.
        received: Batches of which the rank has received its shard.

    Raises:
        TrainerNotRegistered: If the run has no trainer with this identity.
    """
    run = _served_run(run_id)
    trainer = first_row(Trainer, "run_id = %s AND identity = %s", [run.pk, identity])
    if trainer is None:
        raise TrainerNotRegistered(f"{identity} is not a trainer of {run.name}: register first")
    batch = first_row(
        Batch,
        "run_id = %s AND trainer_id = %s AND state = 'leased' AND NOT id = ANY(%s) "
        "ORDER BY ordinal",
        [run_id, trainer.pk, list(received)],
    )
    if batch is None:
        return None
    return Lease(batch=batch, lease_seconds=run.lease_seconds, policy_step=run.policy_step)


def record_delivered(*, batch_id: UUID, fence: int) -> None:
    """Record that the answer with this lease was sent completely."""
    with sql.cursor() as cursor:
        cursor.execute(SQL["record_delivery"], [batch_id, fence], prepare=True)


def record_interrupted(*, batch_id: UUID, fence: int) -> None:
    """Record that the answer with this lease was interrupted."""
    Batch.objects.filter(pk=batch_id, fence=fence, delivered_at=None).update(
        sending_since=None, sender=""
    )


def delete_old_deliveries(*, run_id: int, identity: str) -> None:
    """Reset deliveries, so that a restarted stock trainer gets its batch again."""
    Batch.objects.filter(run_id=run_id, trainer__identity=identity, state__in=OPEN_BATCHES).update(
        delivered_at=None, sending_since=None, sender=""
    )


_TRAINER: Final = "FROM runs_trainer t WHERE t.run_id = runs_run.id AND t.identity = %s"
_COMPUTED: Final = {
    "asking_id": f"(SELECT t.id {_TRAINER})",
    "asking_seen_at": f"(SELECT t.last_seen_at {_TRAINER})",
    "asking_registered_at": f"(SELECT t.registered_at {_TRAINER})",
    "asking_is_stock": f"(SELECT t.is_stock {_TRAINER})",
    "has_open_batches": SQL["has_open_batches"],
    "has_stale_fragments": HAS_STALE_FRAGMENTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseContext:
    """A run and the trainer that requests a batch of it."""

    run: Run
    trainer: Trainer
    has_open_batches: bool
    """Whether a batch is returned, or leased to the trainer."""
    has_stale_fragments: bool
    """Whether fragments are too old for the run by their version or epoch."""


def lease_context(run_id: int, identity: str) -> LeaseContext:
    """Return the context of a request.

    Raises:
        TrainerNotRegistered: If no trainer of the run has this identity.
    """
    parameters = [identity] * sum(text.count("%s") for text in _COMPUTED.values())
    run = first_row(Run, "id = %s", [*parameters, run_id], computed=_COMPUTED)
    if run is None:
        raise Run.DoesNotExist(f"run {run_id} does not exist")
    found: dict[str, Any] = {name: run.__dict__.pop(name) for name in _COMPUTED}
    if found["asking_id"] is None:
        raise TrainerNotRegistered(f"{identity} is not a trainer of {run.name}: register first")
    columns = {
        "id": found["asking_id"],
        "run_id": run_id,
        "identity": identity,
        "last_seen_at": found["asking_seen_at"],
        "registered_at": found["asking_registered_at"],
        "is_stock": found["asking_is_stock"],
    }
    return LeaseContext(
        run=run,
        trainer=row_of(Trainer, columns),
        has_open_batches=found["has_open_batches"],
        has_stale_fragments=found["has_stale_fragments"],
    )
