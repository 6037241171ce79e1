"""Pushes of one group without a key, as stock environments send them.

Pushes that arrive at the same time are stored together: one statement reads their context, one
object holds their bytes, and one transaction stores their rows.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, Generic, TypeVar

from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.arrivals import Plan, Receipt
from buffer.ingest.services.idempotency import Claim, Retried
from buffer.ingest.services.pushes import (
    PushContext,
    accept_groups,
    check_accepts,
    check_room,
    decoding_options,
    losses_of,
    note_groups,
    note_short_groups,
    push_context_of,
)
from buffer.ingest.services.storage import PushRows, changes_of, store_pushes
from buffer.items.rules.states import ItemKind
from runs.lifecycle.models import Run
from web.live.announcements import announce

T = TypeVar("T")
R = TypeVar("R")


class GroupCommit(Generic[T, R]):
    """Combines the concurrent writes of threads.

    A thread writes its item at once if fewer than `at_once` writes are in progress. Items that
    arrive in the meantime wait; when a write ends, the thread of the first waiting item writes all
    of them.

    Args:
        write: Function that writes items and returns, for each, its result or its error.
        at_once: Number of concurrent writes.
    """

    def __init__(self, write: Callable[[list[T]], list[R | Exception]], *, at_once: int) -> None:
        self._write = write
        self._free = at_once
        self._waiting: list[_Entry[T, R]] = []
        self._lock = threading.Lock()

    def __call__(self, item: T) -> R:
        """Write an item and return its result.

        Raises:
            Exception: The error of the item. If the write of several items fails, each is written
                alone, so that one item cannot fail others.
        """
        entry: _Entry[T, R] = _Entry(item)
        with self._lock:
            if self._free:
                self._free -= 1
                entry.led = [entry]
            else:
                self._waiting.append(entry)
        if not entry.led:
            entry.turn.wait()
        if entry.led:
            entries, entry.led = entry.led, []  # a cycle would keep the items until collected
            self._lead(entries)
        return entry.result()

    def _lead(self, entries: "list[_Entry[T, R]]") -> None:
        """Write items; then wake their threads, and one that writes the waiting items."""
        try:
            outcomes = self._outcomes(entries)
            # The traceback of an error refers to this list, so an error that stays in it would keep
            # the items until collected.
            for entry in reversed(entries):
                entry.outcome = outcomes.pop()
        finally:
            with self._lock:
                following, self._waiting = self._waiting, []
                self._free += not following
            for entry in entries:
                entry.turn.set()
            if following:
                following[0].led = following
                following[0].turn.set()

    def _outcomes(self, entries: "list[_Entry[T, R]]") -> list[R | Exception]:
        try:
            return self._write([entry.item for entry in entries])
        except Exception as error:  # noqa: BLE001 raised again in the thread of each item
            if len(entries) == 1:
                return [error]
            return [self._outcomes([entry]).pop() for entry in entries]


class _Entry(Generic[T, R]):
    """An item that a thread waits for."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.turn = threading.Event()
        self.led: list[_Entry[T, R]] = []
        """Items that its thread writes, its own first; empty if another thread writes it."""
        self.outcome: R | Exception = RuntimeError("the write of this item was interrupted")

    def result(self) -> R:
        """Return the result, or raise the error; to be called once."""
        outcome = self.outcome
        # The traceback of an error refers to this frame and to the entry.
        del self.outcome
        try:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        finally:
            del outcome


# While one write waits for the disk, another decodes.
WRITES_AT_ONCE: Final = 2
GROUP_COMMITS: Final = 1024
"""Runs of which a process keeps a group commit."""


@dataclass(slots=True, kw_only=True)
class SinglePush:
    """A push of one group.

    Attributes:
        body: The JSON of the group.
        producer: Identity of the producer.
        claim: Claim that is made with the push, so that it is not stored twice.
        run: The run, once it is known.
        group: The group, once it is decoded.
    """

    body: bytes
    producer: str
    claim: Claim
    run: Run | None = None
    group: Group | None = None


def accept_push(run_name: str | None, push: SinglePush) -> Receipt | None:
    """Store a push together with others that arrive at the same time.

    Args:
        run_name: Name of the run; None for the default run.
        push: The push.

    Returns:
        The receipt, or None if the run does not exist or takes no groups.

    Raises:
        InvalidBody: If the body is not a valid group.
        ClientLeft: If the client has closed the connection.
        Retried: If the claim cannot be made; nothing is stored.
        ApiError: As for :func:`buffer.ingest.services.pushes.accept_groups`.
    """
    return _group_commit(run_name)(push)


@lru_cache(maxsize=GROUP_COMMITS)
def _group_commit(run_name: str | None) -> GroupCommit[SinglePush, Receipt | None]:
    return GroupCommit(partial(_accept, run_name), at_once=WRITES_AT_ONCE)


def _accept(run_name: str | None, pushes: list[SinglePush]) -> list[Receipt | Exception | None]:
    """Store pushes; return the receipt or the error of each."""
    context = push_context_of(run_name, count=len(pushes))
    if context is None:
        return [None for _ in pushes]
    outcomes: list[Receipt | Exception | None] = []
    together: list[tuple[int, PushRows]] = []
    for push, item_id in zip(pushes, context.ids, strict=True):
        try:
            rows = _placed(push, item_id, context)
            if rows is not None:
                together.append((len(outcomes), rows))
                outcomes += rows.receipts
            else:
                assert push.group is not None  # noqa: S101 decoded before
                outcomes += accept_groups(
                    run=context.run,
                    groups=[push.group],
                    producer=push.producer,
                    now=push.claim.arrived_at,
                    claim=push.claim,
                )
        except Exception as error:  # noqa: BLE001 raised again in the thread of the push
            outcomes.append(error)
    stored = store_pushes(context.run.pk, [rows for _, rows in together]) if together else []
    for (number, _), is_stored in zip(together, stored, strict=True):
        if not is_stored:
            outcomes[number] = Retried()
    if any(stored):
        groups = [arrival.item for _, rows in together for arrival in rows.arrivals]
        now = pushes[0].claim.arrived_at
        note_groups(context.run, groups, context, now=now)
        note_short_groups(context.run, groups, now=now)
        announce(context.run.pk, "queue", "ledger")
    return outcomes


def _placed(push: SinglePush, item_id: int, context: PushContext) -> PushRows | None:
    """Return the rows of a push; None if it must be stored alone.

    A push is stored alone if its group has no sequences, waits for others, or is from an
    environment that is not in the context.
    """
    run = push.run = context.run
    push.claim.run_id = run.pk
    push.claim.check_client()
    group = push.group = decode_group(push.body, **decoding_options(run))
    check_accepts(run)
    if not group.sequences or not context.suffices([group]) or context.is_partial(group):
        return None
    check_room(run, ItemKind.GROUPS, items=context.items, size_bytes=context.size_bytes)
    plan = Plan(run)
    arrival = plan.classify(group)
    arrival.item_id = item_id
    if context.is_partial(arrival.item):
        return None
    plan.mute([arrival], context.muted)
    changes = changes_of(run, ItemKind.GROUPS, [arrival])
    changes.lose(losses_of([group]), epoch=run.epoch)
    return PushRows(
        arrivals=[arrival],
        receipts=[arrival.receipt],
        changes=changes,
        producer=push.producer,
        now=push.claim.arrived_at,
        claim=push.claim,
    )
