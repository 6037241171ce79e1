"""Accept pushes of trajectory groups."""

import threading
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from buffer.ingest.schemas.groups import Group
from buffer.ingest.services.arrivals import Arrival, Plan, Receipt
from buffer.ingest.services.idempotency import Claim, Retried
from buffer.ingest.services.push_context import PushContext, push_context_for
from buffer.ingest.services.push_storage import PushRows, store_pushes
from buffer.items.rules.states import ItemKind, ItemState
from buffer.items.services import Changes
from runs.events.services import record_event
from runs.lifecycle.models import Environment, Run
from runs.lifecycle.rules import ACCEPTING
from runs.lifecycle.services.registry import renew_environments_seen
from web.live.announcements import announce
from web.rules.errors import Conflict

EVENT_INTERVAL: Final = timedelta(minutes=1)


class RunNotAccepting(Conflict):
    """The run has ended, or accepts another kind of items."""

    code = "run_not_accepting"
    title = "The run accepts no data"


def accept_groups(
    *,
    run: Run,
    groups: list[Group],
    producer: str,
    now: datetime,
    claim: Claim | None = None,
) -> list[Receipt]:
    """Store the groups of one push, all or none, and queue those that need not wait.

    Groups that are stale or overlong, have zero variance in a run that drops those, or come from a
    muted environment are stored as dropped, without bytes.

    Args:
        run: The run.
        groups: The groups of the push.
        producer: Identity of the producer.
        now: Time of the request.
        claim: Claim made in the statement that stores the groups, so that nothing is stored twice.

    Raises:
        Retried: If the claim cannot be made; nothing is stored.
        RunNotAccepting: If the run has ended.
        UnknownEnvironment: If a group names an environment that the run does not have.
        QueueFull: If the run is at its limit of groups or bytes.
        DiskFull: If free disk space is below the minimum.
    """
    check_accepts(run)
    plan = Plan(run)
    # Lenient runs accept groups without sequences; only their notes are recorded.
    arrivals = [plan.classify(group) for group in groups if group.sequences]
    context = push_context_for(run, groups, count=len(arrivals))
    context.check_room()
    plan.mute(arrivals, context.muted)
    # There may be more ids than arrivals: groups without sequences need none.
    for item_id, arrival in zip(context.ids, arrivals, strict=False):
        arrival.item_id = item_id
    # Partial groups lock the waiting ones of their environment until they are stored.
    is_partial = any(context.is_partial(arrival.group) for arrival in arrivals)
    with transaction.atomic() if is_partial else nullcontext():
        plan.assign(arrivals, context.sizes)
        placed = iter(arrivals)
        receipts = [next(placed).receipt if group.sequences else Receipt() for group in groups]
        push = PushRows(
            arrivals=arrivals,
            receipts=receipts,
            changes=changes_of(run, arrivals, plan),
            producer=producer,
            now=now,
            claim=claim,
        )
        if (arrivals or claim is not None) and not store_pushes(run.pk, [push])[0]:
            raise Retried
    note_groups(run, [*groups, *(arrival.group for arrival in arrivals)], context, now=now)
    announce(run.pk, "queue", "ledger")
    return receipts


def check_accepts(run: Run) -> None:
    """Check that a run accepts groups.

    Raises:
        RunNotAccepting: If it has ended.
    """
    if run.status not in ACCEPTING or run.archived_at is not None:
        raise RunNotAccepting(f"{run.name} is {run.status} and accepts no data")


def changes_of(run: Run, arrivals: list[Arrival], plan: Plan) -> Changes:
    """Return the changes that the groups of a push make to the counts."""
    changes = Changes(run.pk, ItemKind.GROUPS)
    for arrival in arrivals:
        reason = arrival.receipt.dropped or ""
        changes.accept([arrival.counted], arrival.state, reason=reason)
        if arrival.is_truncated and arrival.state is not ItemState.DROPPED:
            changes.truncate([arrival.counted])
    changes.move(plan.released_items(), ItemState.WAITING, ItemState.QUEUED)
    return changes


_recorded: dict[tuple[int, int | None, str], datetime] = {}
_recorded_lock = threading.Lock()


def note_groups(run: Run, groups: Iterable[Group], context: PushContext, *, now: datetime) -> None:
    """Record that environments were seen, and the notes of accepted groups as events.

    A note on an environment is recorded at most once per minute and process.
    """
    notes: set[tuple[int | None, str]] = set()
    unseen: set[int] = set()
    for group in groups:
        notes.update((group.env_id, note) for note in group.notes)
        if group.env_id in context.unseen:
            unseen.add(group.env_id)
    if unseen:
        renew_environments_seen(run_id=run.pk, env_ids=unseen, now=now)
    for env_id, note in sorted(notes, key=str):
        with _recorded_lock:
            last = _recorded.get((run.pk, env_id, note))
            if last is not None and now - last < EVENT_INTERVAL:
                continue
            _recorded[run.pk, env_id, note] = now
        name = "" if env_id is None else _environment_name(run, env_id)
        record_event(
            run_id=run.pk,
            kind="odd_groups",
            level="warning",
            message=f"accepted groups{name and f' of {name}'} with an anomaly: {note}",
            actor="buffer",
            details={} if env_id is None else {"env_id": env_id, "environment": name},
            now=now,
        )


def _environment_name(run: Run, env_id: int) -> str:
    """Return the name of an environment; empty if a lenient run does not have it."""
    names = Environment.objects.filter(run_id=run.pk, env_id=env_id)
    return names.values_list("wandb_name", flat=True).first() or ""
