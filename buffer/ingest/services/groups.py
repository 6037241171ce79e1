"""Accept pushes of trajectory groups."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.db import transaction

from buffer.ingest.schemas.groups import Group
from buffer.ingest.services.arrivals import Arrival, Plan, Receipt
from buffer.ingest.services.idempotency import CLAIM, Claim, Retried
from buffer.ingest.services.push_context import PushContext, push_context_for
from buffer.items.rules.states import ItemKind, ItemState
from buffer.items.services.tallies import ADD, ADD_IF_CLAIMED, Changes
from buffer.payloads.services.contents import JSON_CODEC, Writing, insert_contents, write_contents
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.lifecycle import ACCEPTING
from runs.lifecycle.services.registry import renew_environments_seen
from web import database
from web.live.announcements import announce
from web.rules.errors import Conflict

EVENT_INTERVAL: Final = timedelta(minutes=1)
_STORE: Final = """
    INSERT INTO buffer_trajectorygroup
        (run_id, received_at, producer, id, state, drop_reason, epoch, policy_step, env_id,
         sequences, tokens, longest_tokens, score_mean, score_min, score_max, score_std,
         size_bytes, codec, crc32, segment, object, "offset", origin)
    SELECT %(run)s, %(now)s, %(producer)s, r.*
    FROM json_to_recordset(%(rows)s) AS r(
        id bigint, state text, drop_reason text, epoch int, policy_step int, env_id int,
        sequences int, tokens bigint, longest_tokens int, score_mean float8,
        score_min float8, score_max float8, score_std float8, size_bytes int,
        codec text, crc32 bigint, segment int, object text, "offset" bigint, origin text)"""
_INSERT: Final = f"WITH stored AS ({_STORE}) {ADD}"
_CLAIM_AND_INSERT: Final = f"""
    WITH claimed AS ({CLAIM}),
    stored AS ({_STORE} WHERE EXISTS (SELECT FROM claimed)),
    counted AS ({ADD_IF_CLAIMED})
    SELECT id FROM claimed"""  # noqa: S608 made of constants


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
    context: PushContext | None = None,
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
        context: Context of the push, if already read.

    Raises:
        Retried: If the claim cannot be made; nothing is stored.
        RunNotAccepting: If the run has ended.
        UnknownEnvironment: If a group names an environment that the run does not have.
        QueueFull: If the run is at its limit of groups or bytes.
        DiskFull: If free disk space is below the minimum.
    """
    if run.status not in ACCEPTING or run.archived_at is not None:
        raise RunNotAccepting(f"{run.name} is {run.status} and accepts no data")
    if not groups:
        _claim_without_rows(claim, [])
        return []
    plan = Plan(run)
    # Lenient runs accept groups without sequences; only their notes are recorded.
    arrivals = [plan.classify(group) for group in groups if group.sequences]
    if context is None or not context.suffices(groups):
        context = push_context_for(run, groups, count=len(arrivals))
    context.check_room()
    plan.mute(arrivals, context.muted)
    # There may be more ids than arrivals: groups without sequences need none.
    for item_id, arrival in zip(context.ids, arrivals, strict=False):
        arrival.item_id = item_id
    with _in_progress.one() as is_alone:
        early = _start_writing(arrivals) if is_alone else None
        try:
            write = _Write(run=run, producer=producer, now=now, claim=claim, early=early)
            receipts = write(groups, arrivals, plan, context.sizes)
        except Retried:
            # No row refers to the written bytes.
            if early is not None:
                early.discard_written()
            raise
    _record_notes(run, groups, arrivals, now=now)
    unseen = context.unseen & {group.env_id for group in groups if group.env_id is not None}
    if unseen:
        renew_environments_seen(run_id=run.pk, env_ids=unseen, now=now)
    announce(run.pk, "queue", "ledger")
    return receipts


def _start_writing(arrivals: list[Arrival]) -> Writing:
    """Start to write the bytes of groups while their rows are built and sent.

    A single push mostly waits for the disk, so writing both concurrently is faster. With several
    concurrent pushes there is always other work, and this would cost more than it saves.
    """
    kept = [arrival for arrival in arrivals if arrival.state is not ItemState.DROPPED]
    writing = Writing([arrival.group.content for arrival in kept], codec=_codec(kept))
    for arrival, location in zip(kept, writing.locations, strict=True):
        arrival.location = location
    return writing


def _codec(kept: list[Arrival]) -> str:
    """Return the codec of a push, which all its groups share."""
    return kept[0].group.codec if kept else JSON_CODEC


def _claim_without_rows(claim: Claim | None, receipts: list[Receipt]) -> None:
    """Make the claim of a push without rows to store."""
    if claim is not None:
        with database.cursor() as cursor:
            claim.made(cursor.execute(CLAIM, claim.params(receipts)).fetchone())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """Writes rows and counts in one statement, so that a push of large groups is one round trip."""

    run: Run
    producer: str
    now: datetime
    claim: Claim | None
    early: Writing | None
    """The write of the bytes, if already started."""

    def __call__(
        self, groups: list[Group], arrivals: list[Arrival], plan: Plan, sizes: dict[int, int]
    ) -> list[Receipt]:
        """Store the groups of a push, and return the receipts of all groups."""
        some_wait = any(
            arrival.group.env_id is not None
            and arrival.group.sequences < sizes[arrival.group.env_id]
            for arrival in arrivals
        )
        with transaction.atomic() if some_wait else nullcontext():
            plan.assign(arrivals, sizes)
            placed = iter(arrivals)
            receipts = [next(placed).receipt if group.sequences else Receipt() for group in groups]
            if arrivals:
                self._store(arrivals, receipts, _changes(self.run, arrivals, plan))
            else:
                _claim_without_rows(self.claim, receipts)
        return receipts

    def _store(self, arrivals: list[Arrival], receipts: list[Receipt], changes: Changes) -> None:
        kept = [arrival for arrival in arrivals if arrival.state is not ItemState.DROPPED]
        if self.early is None:
            contents = [arrival.group.content for arrival in kept]
            written = write_contents(contents, codec=_codec(kept))
            for arrival, location in zip(kept, written, strict=True):
                arrival.location = location
        inline = [
            (arrival.item_id, arrival.location, arrival.group.content)
            for arrival in kept
            if not arrival.location.object
        ]
        with transaction.atomic() if inline or self.early is not None else nullcontext():
            self._insert(arrivals, receipts, changes)
            insert_contents(ItemKind.GROUPS, inline)
            if self.early is not None:
                self.early.wait()

    def _insert(self, arrivals: list[Arrival], receipts: list[Receipt], changes: Changes) -> None:
        if self.claim is None:
            insert_groups(arrivals, changes, producer=self.producer, now=self.now)
            return
        params = _params(arrivals, changes, producer=self.producer, now=self.now)
        params |= self.claim.params(receipts)
        with database.cursor() as cursor:
            self.claim.made(cursor.execute(_CLAIM_AND_INSERT, params, prepare=True).fetchone())


def insert_groups(
    arrivals: list[Arrival], changes: Changes, *, producer: str, now: datetime
) -> None:
    """Insert the rows of groups and add their counts, in one statement."""
    params = _params(arrivals, changes, producer=producer, now=now)
    with database.cursor() as cursor:
        cursor.execute(_INSERT, params, prepare=True)


def _params(
    arrivals: list[Arrival], changes: Changes, *, producer: str, now: datetime
) -> dict[str, Any]:
    return changes.params() | {
        "now": now,
        "producer": producer[:200],
        # One JSON parameter: the driver takes 0.3 ms to encode 20 arrays.
        "rows": msgspec.json.encode([_row(arrival) for arrival in arrivals]).decode(),
    }


def _row(arrival: Arrival) -> dict[str, Any]:
    group, location = arrival.group, arrival.location
    return {
        "id": arrival.item_id,
        "state": arrival.state,
        "drop_reason": arrival.receipt.dropped or "",
        "epoch": arrival.version.epoch,
        "policy_step": arrival.version.step,
        "env_id": group.env_id,
        "sequences": group.sequences,
        "tokens": group.tokens,
        "longest_tokens": group.longest_tokens,
        "score_mean": _number(group.score_mean),
        "score_min": _number(group.score_min),
        "score_max": _number(group.score_max),
        "score_std": _number(group.score_std),
        "size_bytes": len(group.content),
        "codec": location.codec,
        "crc32": location.crc32,
        "segment": location.segment,
        "object": location.object,
        "offset": location.offset,
        "origin": arrival.origin,
    }


def _number(value: float) -> float | str:
    """Return a number for JSON to PostgreSQL; NaN and infinities become text."""
    return value if math.isfinite(value) else str(value)


def _changes(run: Run, arrivals: list[Arrival], plan: Plan) -> Changes:
    changes = Changes(run.pk, ItemKind.GROUPS)
    for arrival in arrivals:
        reason = arrival.receipt.dropped or ""
        changes.accept([arrival.counted], arrival.state, reason=reason)
        if arrival.is_truncated and arrival.state is not ItemState.DROPPED:
            changes.truncate([arrival.counted])
    changes.move(plan.released_items(), ItemState.WAITING, ItemState.QUEUED)
    return changes


class _InProgress:
    """Counter of the pushes that this process is storing."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Count a push while the block runs; yields whether it is the only one."""
        with self._lock:
            self._count += 1
            is_alone = self._count == 1
        try:
            yield is_alone
        finally:
            with self._lock:
                self._count -= 1


_in_progress = _InProgress()
_recorded: dict[tuple[int, str], datetime] = {}
_recorded_lock = threading.Lock()


def _record_notes(run: Run, groups: list[Group], arrivals: list[Arrival], *, now: datetime) -> None:
    """Record notes as events, each at most once per minute and process."""
    noted = [*groups, *(arrival.group for arrival in arrivals)]
    for note in sorted({note for group in noted for note in group.notes}):
        with _recorded_lock:
            last = _recorded.get((run.pk, note))
            if last is not None and now - last < EVENT_INTERVAL:
                continue
            _recorded[run.pk, note] = now
        record_event(
            run_id=run.pk,
            kind="odd_groups",
            level="warning",
            message=f"accepted groups with an anomaly: {note}",
            actor="buffer",
            now=now,
        )
