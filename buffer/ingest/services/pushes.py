"""Accept pushes of groups and of fragments: check, classify, store, count.

A push is refused at the limits before anything is stored: the refusal names the limit and sets
Retry-After, and nothing is dropped silently. Counts are read before a push is stored, so concurrent
pushes may exceed a limit by at most their own size.

Stock environments push one group at a time. The context of such pushes is read together with their
run, in one statement before the bodies are decoded. Other pushes read it after decoding.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from psycopg.rows import DictRow, dict_row

from buffer.ingest.rules.arrivals import WaitingFragment, cut
from buffer.ingest.schemas.groups import DecodingOptions, Group
from buffer.ingest.services.arrivals import (
    Arrival,
    Encoded,
    Plan,
    Receipt,
    fragment_arrival,
    is_partial,
)
from buffer.ingest.services.idempotency import Claim, Retried
from buffer.ingest.services.storage import (
    PushRows,
    changes_of,
    insert_bytes,
    insert_fragments,
    store_pushes,
    written,
)
from buffer.items.models import FragmentChunk, ShortGroup
from buffer.items.queries import admission, kind_of, server_limits, stored_amounts
from buffer.items.rules.ledger import ACCEPTED, RolloutLosses
from buffer.items.rules.states import DropReason, ItemKind, ItemState
from buffer.items.services import Changes, counted, keep_short_groups, lock_slots
from buffer.payloads.services.eviction import evict, keep_within_capacity
from buffer.problems.services import Claimed
from buffer.problems.services import claim as claim_problems
from rolldeck.wire import Fragment, FragmentReceipt
from runs.config.rules.sections import replay_of
from runs.events.services import record_event
from runs.lifecycle.models import Environment, Run, UnscoredSequences
from runs.lifecycle.queries import address_column
from runs.lifecycle.rules import ACCEPTING, SEEN_EVERY
from runs.lifecycle.services.registry import renew_environments_seen
from web import sql
from web.disk_space import check_disk
from web.live.announcements import announce
from web.rules.errors import Conflict, TooManyRequests
from web.sql import filled, first_row, row_of, statements_of

SQL: Final = statements_of("buffer")
EVENT_INTERVAL: Final = timedelta(minutes=1)
NEWEST_ENVIRONMENTS: Final = 64
"""Number of environments that are read before the body is decoded: the newest of the run."""


class RunNotAccepting(Conflict):
    """The run has ended, or accepts another kind of items."""

    code = "run_not_accepting"
    title = "The run accepts no data"


class QueueFull(TooManyRequests):
    """The run is at its limit of items or bytes."""

    code = "over_quota"
    title = "The queue is full"
    retry_after_seconds = 5


class UnknownEnvironment(ValueError):
    """The run has no environment with this id."""

    def __init__(self, index: int, env_id: int) -> None:
        super().__init__(f"this run has no environment {env_id}")
        self.index = index


def check_kind(run: Run, kind: ItemKind) -> None:
    """Check that a run takes items of a kind.

    Raises:
        RunNotAccepting: If it takes the other kind.
    """
    if kind_of(run) is not kind:
        names = {ItemKind.GROUPS: "trajectory groups", ItemKind.FRAGMENTS: "fragments"}
        raise RunNotAccepting(f"{run.name} takes {names[kind_of(run)]}, not {names[kind]}")


def check_accepts(run: Run) -> None:
    """Check that a run accepts items.

    Raises:
        RunNotAccepting: If it has ended.
    """
    if run.status not in ACCEPTING or run.archived_at is not None:
        raise RunNotAccepting(f"{run.name} is {run.status} and accepts no data")


def check_room(run: Run, kind: ItemKind, *, items: int, size_bytes: int) -> None:
    """Check that a run may store a push of `kind`.

    Args:
        run: The run.
        kind: Kind of the pushed items.
        items: Open items of this kind that the run holds.
        size_bytes: Bytes of the run's open items of both kinds.

    Raises:
        QueueFull: If the run is at its limit of items or bytes.
        DiskFull: If free disk space is below the minimum.
    """
    most = {
        ItemKind.GROUPS: settings.ROLLDECK_MAX_QUEUED_GROUPS,
        ItemKind.FRAGMENTS: settings.ROLLDECK_MAX_QUEUED_FRAGMENTS,
    }[kind]
    if items >= most:
        raise QueueFull(f"{run.name} holds {items} {kind}, at most {most} allowed")
    if size_bytes >= settings.ROLLDECK_MAX_RUN_BYTES:
        raise QueueFull(
            f"{run.name} holds {size_bytes} bytes, "
            f"at most {settings.ROLLDECK_MAX_RUN_BYTES} allowed"
        )
    check_disk()


def decoding_options(run: Run) -> DecodingOptions:
    """Return the limits and options with which the groups of a run are decoded."""
    return {
        "limits": server_limits(),
        "lenient": run.lenient,
        "takes_unscored": run.unscored_sequences != UnscoredSequences.REFUSE,
        "advantages": run.advantages,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PushContext:
    """Context of a push of groups, read from the database.

    Attributes:
        run: The run; fields that pushes do not need are deferred.
        items: Number of its open groups.
        size_bytes: Bytes of its open items of any kind.
        ids: Ids for the groups of the push.
        sizes: Group sizes by `env_id`.
        muted: Environments whose groups are dropped.
        unseen: Environments whose `last_seen_at` must be updated.
    """

    run: Run
    items: int
    size_bytes: int
    ids: list[int]
    sizes: dict[int, int]
    muted: Collection[int]
    unseen: Collection[int]

    @classmethod
    def of(cls, run: Run, row: DictRow) -> "PushContext":
        """Return the context in a row of `context_of_groups` or of `context_of_run`."""
        return cls(
            run=run,
            items=row["items"],
            size_bytes=row["size_bytes"],
            ids=row["ids"],
            sizes=dict(zip(row["env_ids"], row["sizes"], strict=True)),
            muted=row["muted"],
            unseen=row["unseen"],
        )

    def suffices(self, groups: Sequence[Group]) -> bool:
        named = {group.env_id for group in groups if group.env_id is not None}
        return len(groups) <= len(self.ids) and self.sizes.keys() >= named

    def is_partial(self, group: Group) -> bool:
        """Return whether a group is smaller than the groups of its environment."""
        return group.env_id is not None and is_partial(group, self.sizes[group.env_id])


def push_context_of(name: str | None, *, count: int) -> PushContext | None:
    """Return the context of pushes to a run, read before their bodies are decoded.

    Args:
        name: Name or id of the run; None for the default run.
        count: Number of new ids.

    Returns:
        The context, or None if the run does not exist or takes no groups.
    """
    query = SQL["context_of_default_run"]
    if name is not None:
        query = filled(SQL["context_of_run"], column=address_column(name))
    row = _context_row(query, {"name": name, "count": count, "newest": NEWEST_ENVIRONMENTS})
    return None if row is None else PushContext.of(row_of(Run, row), row)


def push_context_for(run: Run, groups: Sequence[Group], *, count: int) -> PushContext:
    """Return the context of a push of groups, with `count` new ids.

    Raises:
        UnknownEnvironment: If a group names an environment that the run does not have.
    """
    named = {group.env_id for group in groups if group.env_id is not None}
    envs = [env_id for env_id in named if 0 <= env_id < 2**31]
    row = _context_row(SQL["context_of_groups"], {"run": run.pk, "count": count, "envs": envs})
    assert row is not None  # noqa: S101 an aggregate has a row
    context = PushContext.of(run, row)
    for index, group in enumerate(groups):
        if group.env_id is not None and group.env_id not in context.sizes:
            if not run.lenient or not 0 <= group.env_id < 2**31:
                raise UnknownEnvironment(index, group.env_id)
            context.sizes[group.env_id] = 1
    return context


def _context_row(query: str, parameters: dict[str, Any]) -> DictRow | None:
    with sql.cursor(dict_row) as cursor:
        parameters["seen_every"] = SEEN_EVERY
        return cursor.execute(query, parameters, prepare=True).fetchone()


def new_group_ids(count: int) -> list[int]:
    """Return ids for groups that no push brings."""
    with sql.cursor() as cursor:
        (ids,) = cursor.execute(SQL["new_group_ids"], {"count": count}).fetchone() or ([],)
        return list(ids)


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
    check_room(run, ItemKind.GROUPS, items=context.items, size_bytes=context.size_bytes)
    plan.mute(arrivals, context.muted)
    # There may be more ids than arrivals: groups without sequences need none.
    for item_id, arrival in zip(context.ids, arrivals, strict=False):
        arrival.item_id = item_id
    # Partial groups lock the waiting ones of their environment until they are stored.
    is_partial = any(context.is_partial(arrival.item) for arrival in arrivals)
    answers = any(arrival.item.problem for arrival in arrivals)
    with transaction.atomic(savepoint=False) if is_partial or answers else nullcontext():
        if answers:
            drop_repeated(run, arrivals)
        plan.assign(arrivals, context.sizes)
        placed = iter(arrivals)
        receipts = [
            next(placed).receipt
            if group.sequences
            else Receipt(dropped=DropReason.SHORT_GROUP if group.short else None)
            for group in groups
        ]
        changes = changes_of(run, ItemKind.GROUPS, arrivals)
        changes.lose(losses_of(groups), epoch=run.epoch)
        changes.move(plan.released_items(), ItemState.WAITING, ItemState.QUEUED)
        push = PushRows(
            arrivals=arrivals,
            receipts=receipts,
            changes=changes,
            producer=producer,
            now=now,
            claim=claim,
        )
        if (changes.rows() or claim is not None) and not store_pushes(run.pk, [push])[0]:
            raise Retried
    note_groups(run, [*groups, *(arrival.item for arrival in arrivals)], context, now=now)
    note_short_groups(run, groups, now=now)
    announce(run.pk, "queue", "ledger")
    return receipts


def drop_repeated(run: Run, arrivals: Iterable[Arrival]) -> None:
    """Claim the problems that groups answer; drop groups whose problem has another group."""
    by_id = {one.item_id: one for one in arrivals if one.item.problem and one.item_id is not None}
    groups = [
        Claimed(lesson, number, item_id)
        for item_id, one in by_id.items()
        for lesson, number in [one.item.problem]
    ]
    for late in claim_problems(run.pk, groups):
        by_id[late].drop(DropReason.REPEATED)


UNSCORED: Final = "rollout_unscored"


def note_short_groups(run: Run, groups: Collection[Group], *, now: datetime) -> None:
    """Keep the groups of a push of which sequences have no score, for the run's bias."""
    short = [group for group in groups if group.short]
    if not short:
        return
    names: dict[int | None, str] = dict(
        Environment.objects.filter(
            run_id=run.pk, env_id__in={group.env_id for group in short}
        ).values_list("env_id", "wandb_name")
    )
    keep_short_groups(
        run.pk,
        [
            ShortGroup(
                run_id=run.pk,
                at=now,
                environment=names.get(group.env_id, ""),
                failed={UNSCORED: group.short.unscored},
                rewards=group.short.scores,
                tokens=group.short.tokens,
                is_kept=run.unscored_sequences == UnscoredSequences.SHRINK
                and group.sequences >= run.least_group_size,
            )
            for group in short
            if group.short
        ],
    )


_recorded: dict[tuple[int, int | None, str], datetime] = {}
_recorded_lock = threading.Lock()


def losses_of(groups: Iterable[Group]) -> RolloutLosses:
    """Return the sequences without a score of pushed groups."""
    unscored = sum(group.short.unscored for group in groups if group.short)
    return RolloutLosses(failed={UNSCORED: unscored} if unscored else {})


def note_groups(run: Run, groups: Iterable[Group], context: PushContext, *, now: datetime) -> None:
    """Record that environments were seen, and the notes of accepted groups as events.

    A note on an environment is recorded at most once per minute and process.
    """
    notes: set[tuple[int | None, str]] = set()
    unseen: set[int] = set()
    for group in groups:
        notes.update((group.env_id, note) for note in group.notes)
        if group.env_id is not None and group.env_id in context.unseen:
            unseen.add(group.env_id)
    if unseen:
        renew_environments_seen(run_id=run.pk, env_ids=unseen, now=now)
    for env_id, note in sorted(notes, key=str):
        with _recorded_lock:
            last = _recorded.get((run.pk, env_id, note))
            if last is not None and now - last < EVENT_INTERVAL:
                continue
            _recorded[run.pk, env_id, note] = now
        name = ""
        if env_id is not None:
            # A lenient run may not have the environment.
            environments = Environment.objects.filter(run_id=run.pk, env_id=env_id)
            name = environments.values_list("wandb_name", flat=True).first() or ""
        record_event(
            run_id=run.pk,
            kind="odd_groups",
            level="warning",
            message=f"accepted groups{name and f' of {name}'} with an anomaly: {note}",
            actor="buffer",
            details={} if env_id is None else {"env_id": env_id, "environment": name},
            now=now,
        )


@transaction.atomic(savepoint=False)
def accept_fragments(
    *, run: Run, fragments: Sequence[tuple[Fragment, Encoded]], now: datetime
) -> FragmentReceipt:
    """Store the fragments of one push; count fragments that are already stored as duplicates.

    Fragments that cannot train the run's policy any more are stored as dropped, without bytes.

    Raises:
        RunNotAccepting: If the run has ended or takes groups.
        QueueFull: If the run is at its limit of fragments or bytes.
        DiskFull: If free disk space is below the minimum.
    """
    current = first_row(Run, "id = %s", [run.pk])
    if current is None:
        raise RunNotAccepting(f"{run.name} no longer exists")
    run = current
    check_kind(run, ItemKind.FRAGMENTS)
    check_accepts(run)
    held = stored_amounts(run)
    check_room(run, ItemKind.FRAGMENTS, items=held.open_items, size_bytes=held.open_bytes)
    is_chunked = replay_of(run.config).fragments_per_chunk > 1
    state = ItemState.WAITING if is_chunked else ItemState.QUEUED
    arrivals = [fragment_arrival(run, *fragment, state) for fragment in fragments]
    written(arrivals)
    insert_fragments(run, arrivals, now=now)
    fresh = [arrival for arrival in arrivals if arrival.item_id is not None]
    insert_bytes(ItemKind.FRAGMENTS, fresh)
    changes = changes_of(run, ItemKind.FRAGMENTS, fresh)
    kept = [arrival.item for arrival in fresh if arrival.is_kept]
    if kept:
        # Queue complete chunks, and evict chunks beyond the capacity.
        queued, length = len(kept), replay_of(run.config).fragments_per_chunk
        if length > 1:
            slots = {fragment.slot for fragment in kept}
            queued = queue_whole_chunks(run, slots, length=length, changes=changes)
        keep_within_capacity(
            run,
            changes,
            environments={fragment.environment for fragment in kept},
            queued=held.queued_items,
            arriving=queued,
        )
    changes.write()
    announce(run.pk, "queue", "ledger")
    arrived = changes.sequences(ACCEPTED, epoch=run.epoch)
    lost = changes.sequences(ItemState.DROPPED, epoch=run.epoch)
    return FragmentReceipt(
        accepted=len(kept),
        duplicates=len(arrivals) - len(fresh),
        dropped=dict(Counter(str(one.dropped) for one in fresh if one.dropped is not None)),
        admission_remaining=admission(
            run, admitted=held.admitted + arrived - lost, trained=held.trained
        ),
    )


def queue_whole_chunks(run: Run, slots: Iterable[str], *, length: int, changes: Changes) -> int:
    """Queue complete chunks of slots, and drop fragments that can never be part of one.

    The caller has stored the new fragments as waiting. A chunk gets the id of its newest fragment,
    so ids order by completion. Returns the number of fragments queued.
    """
    affected = set(slots)
    # After writing the new rows, so that the second of two concurrent pushes sees all rows.
    lock_slots(run.pk, affected)
    waiting: dict[str, list[WaitingFragment]] = {}
    rows = FragmentChunk.objects.filter(
        run=run, epoch=run.epoch, slot__in=affected, state=ItemState.WAITING
    ).values_list("slot", "id", "number", "contiguous")
    for slot, item_id, number, contiguous in rows:
        waiting.setdefault(slot, []).append(WaitingFragment(item_id, number, contiguous))
    cuts = [cut(fragments, length=length) for fragments in waiting.values()]
    queued = [(item_id, max(chunk)) for one in cuts for chunk in one.chunks for item_id in chunk]
    if queued:
        ids, heads = (list(column) for column in zip(*queued, strict=True))
        with sql.cursor() as cursor:
            moved = cursor.execute(SQL["queue_chunks"], [ids, heads]).fetchall()
        changes.move([counted(*row) for row in moved], ItemState.WAITING, ItemState.QUEUED)
    broken = [item_id for one in cuts for item_id in one.broken]
    evict(broken, reason=DropReason.INCOMPLETE, states=[ItemState.WAITING], changes=changes)
    return len(queued)
