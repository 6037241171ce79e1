"""Take trajectory groups in."""

import math
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.db import connection, transaction

from buffer import storage
from buffer.core.fates import OPEN, DropReason, Fate, ItemKind
from buffer.core.group_versions import drop_reason, version_of
from buffer.core.mixed_sizes import WaitingGroups
from buffer.models import TrajectoryGroup
from buffer.services import backpressure
from buffer.services.retries import CLAIM, Claim
from buffer.services.tallies import ADD, ADD_IF_CLAIMED, COUNTED, Changes, Counted, counted
from buffer.wire import Group
from runs import live
from runs import services as runs_services
from runs.core.lifecycle import ACCEPTING
from runs.core.versions import PolicyVersion, version_in_force
from runs.models import Run

NOTE_EVERY: Final = timedelta(minutes=1)
_ENTER: Final = """
    SELECT t.items, t.size_bytes,
        ARRAY(SELECT nextval(pg_get_serial_sequence('buffer_trajectorygroup', 'id'))
              FROM generate_series(1, %(count)s)),
        ARRAY(SELECT env_id FROM runs_environment
              WHERE run_id = %(run)s AND env_id = ANY(%(envs)s::int[]) ORDER BY env_id),
        ARRAY(SELECT group_size FROM runs_environment
              WHERE run_id = %(run)s AND env_id = ANY(%(envs)s::int[]) ORDER BY env_id)
    FROM (SELECT COALESCE(SUM(items) FILTER (WHERE kind = 'groups'), 0)::bigint AS items,
                 COALESCE(SUM(size_bytes), 0)::bigint AS size_bytes
          FROM buffer_tally WHERE run_id = %(run)s AND fate = ANY(%(open)s::text[])) t"""
_STORE: Final = """
    INSERT INTO buffer_trajectorygroup
        (run_id, received_at, producer, id, state, drop_reason, epoch, policy_step, env_id,
         sequences, tokens, longest_tokens, score_mean, score_min, score_max, score_std,
         size_bytes, codec, crc32, segment, object, "offset")
    SELECT %(run)s, %(now)s, %(producer)s, r.*
    FROM json_to_recordset(%(rows)s) AS r(
        id bigint, state text, drop_reason text, epoch int, policy_step int, env_id int,
        sequences int, tokens bigint, longest_tokens int, score_mean float8,
        score_min float8, score_max float8, score_std float8, size_bytes int,
        codec text, crc32 bigint, segment int, object text, "offset" bigint)"""
_INSERT: Final = f"WITH stored AS ({_STORE}) {ADD}"
_CLAIM_AND_INSERT: Final = f"""
    WITH claimed AS ({CLAIM}),
    stored AS ({_STORE} WHERE EXISTS (SELECT FROM claimed)),
    counted AS ({ADD_IF_CLAIMED})
    SELECT id FROM claimed"""  # noqa: S608 made of constants


class UnknownEnvironment(ValueError):
    """The run has no environment with this id."""

    def __init__(self, index: int, env_id: int) -> None:
        super().__init__(f"this run has no environment {env_id}")
        self.index = index


class RunNotAccepting(Exception):
    """The run has ended, or takes another kind of data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of one group: queued, unless one of these says otherwise."""

    waiting_sequences: int | None = None
    """Sequences that wait with it for others."""
    dropped: DropReason | None = None


def accept_groups(
    *,
    run: Run,
    groups: list[Group],
    producer: str,
    now: datetime,
    claim: Claim[list[Receipt]] | None = None,
) -> list[Receipt]:
    """Store groups of one push, all or none, and queue those that need not wait.

    What cannot train the run's policy any more, or by the run's wish has nothing to teach it, keeps
    its row, dropped and without bytes.

    Args:
        run: The run.
        groups: Of the push.
        producer: Identity that pushes them.
        now: Time of the request.
        claim: Made in the statement that stores the groups, so that nothing is stored twice.

    Raises:
        Retried: If the claim cannot be made; nothing was stored.
        RunNotAccepting: If the run has ended.
        UnknownEnvironment: If a group names an environment that the run does not have.
        QueueFull: If the run holds as many groups or bytes as it may.
        DiskFull: If the disk is nearly full.
    """
    if run.status not in ACCEPTING or run.archived_at is not None:
        raise RunNotAccepting(f"{run.name} is {run.status} and takes no data")
    if not groups:
        _claim_alone(claim, [])
        return []
    # A lenient run takes groups without sequences; of those there is nothing to keep but the note.
    kept = [group for group in groups if group.sequences]
    ids, sizes = _enter(run, groups, count=len(kept))
    some_wait = any(
        group.env_id is not None and group.sequences < sizes[group.env_id] for group in kept
    )
    with transaction.atomic() if some_wait else nullcontext():
        plan = _Plan(run, sizes)
        arrivals = [plan.place(*one) for one in zip(ids, kept, strict=True)]
        plan.release()
        placed = iter(arrivals)
        receipts = [next(placed).receipt if group.sequences else Receipt() for group in groups]
        if arrivals:
            write = _Write(run=run, producer=producer, now=now, claim=claim, receipts=receipts)
            write(arrivals, _changes(run, arrivals, plan))
        else:
            _claim_alone(claim, receipts)
    _note(run, groups, now=now)
    live.announce(run.pk, "queue", "ledger")
    return receipts


def _claim_alone(claim: Claim[list[Receipt]] | None, receipts: list[Receipt]) -> None:
    """Make a claim for a push of which nothing is kept."""
    if claim is not None:
        with storage.cursor() as cursor:
            claim.made(cursor.execute(CLAIM, claim.params(receipts)).fetchone())


def _enter(run: Run, groups: list[Group], *, count: int) -> tuple[list[int], dict[int, int]]:
    """Return `count` new ids, and the group size of each environment that a group names."""
    named = {group.env_id for group in groups if group.env_id is not None}
    asked = {
        "run": run.pk,
        "open": [str(fate) for fate in OPEN],
        "count": count,
        "envs": [env_id for env_id in named if 0 <= env_id < 2**31],
    }
    with storage.cursor() as cursor:
        row = cursor.execute(_ENTER, asked, prepare=True).fetchone()
    assert row is not None  # noqa: S101 a query without FROM has a row
    items, size_bytes, ids, known, sizes = row
    backpressure.check_room(run, ItemKind.GROUPS, items=items, size_bytes=size_bytes)
    return ids, _known(run, groups, dict(zip(known, sizes, strict=True)))


def _known(run: Run, groups: list[Group], known: dict[int, int]) -> dict[int, int]:
    for index, group in enumerate(groups):
        if group.env_id is not None and group.env_id not in known:
            if not run.lenient or not 0 <= group.env_id < 2**31:
                raise UnknownEnvironment(index, group.env_id)
            known[group.env_id] = 1
    return known


@dataclass(slots=True, kw_only=True)
class _Arrival:
    """A group of this push, and what becomes of it."""

    item_id: int
    group: Group
    version: PolicyVersion
    receipt: Receipt
    fate: Fate = Fate.QUEUED
    place: storage.Place = storage.NOT_KEPT

    @property
    def counted(self) -> Counted:
        """What is counted of it."""
        group = self.group
        return Counted(self.version.epoch, group.env_id, group.sequences, len(group.content))


class _Plan:
    """Decide what becomes of groups; which wait, environment by environment."""

    def __init__(self, run: Run, sizes: dict[int, int]) -> None:
        self._run_id = run.pk
        self._max_staleness = run.max_staleness
        self._drop_zero_variance = run.drop_zero_variance
        self._current = version_in_force(
            epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
        )
        self._sizes = sizes
        self._waiting: dict[int, WaitingGroups] = {}
        self._before: dict[int, Counted] = {}
        self._held: dict[int, _Arrival] = {}
        self.released: list[int] = []

    def place(self, item_id: int, group: Group) -> _Arrival:
        """Queue a group, drop it or let it wait."""
        version = version_of(
            claimed_epoch=group.epoch, claimed_step=group.policy_step, current=self._current
        )
        reason = drop_reason(version, current=self._current, max_staleness=self._max_staleness)
        if reason is None and self._drop_zero_variance and group.zero_variance:
            reason = DropReason.ZERO_VARIANCE
        arrival = _Arrival(
            item_id=item_id, group=group, version=version, receipt=Receipt(dropped=reason)
        )
        if reason is not None:
            arrival.fate = Fate.DROPPED
        elif group.env_id is not None and group.sequences < self._sizes[group.env_id]:
            self._hold(arrival, group.env_id)
        return arrival

    def _hold(self, arrival: _Arrival, env_id: int) -> None:
        waiting = self._of(env_id)
        item_id = arrival.item_id
        arrival.fate, self._held[item_id] = Fate.WAITING, arrival
        for done in waiting.add(item_id, arrival.group.sequences):
            if done in self._held:
                self._held.pop(done).fate = Fate.QUEUED
            else:
                self.released.append(done)
        arrival.receipt = Receipt(waiting_sequences=waiting.sequences)

    def _of(self, env_id: int) -> WaitingGroups:
        if env_id not in self._waiting:
            with connection.cursor() as cursor:
                # Two halves that arrive at once must see each other.
                cursor.execute(
                    "SELECT pg_advisory_xact_lock(hashtext('rolldeck.waiting'), hashtext(%s))",
                    [f"{self._run_id}:{env_id}"],
                )
            rows = list(
                TrajectoryGroup.objects.filter(
                    run_id=self._run_id, env_id=env_id, state=Fate.WAITING
                )
                .select_for_update()
                .order_by("id")
                .values_list("id", *COUNTED[ItemKind.GROUPS])
            )
            before = {item_id: counted(*columns) for item_id, *columns in rows}
            self._before |= before
            self._waiting[env_id] = WaitingGroups(
                group_size=self._sizes[env_id],
                waiting=[(item_id, item.sequences) for item_id, item in before.items()],
            )
        return self._waiting[env_id]

    def release(self) -> None:
        """Queue the groups that waited for one of this push."""
        if self.released:
            TrajectoryGroup.objects.filter(pk__in=self.released, state=Fate.WAITING).update(
                state=Fate.QUEUED
            )

    def released_items(self) -> list[Counted]:
        """Return what was released, as counted."""
        return [self._before[item_id] for item_id in self.released]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """Write rows and counts in one statement, so that a push of large groups is one round trip."""

    run: Run
    producer: str
    now: datetime
    claim: Claim[list[Receipt]] | None
    receipts: list[Receipt]

    def __call__(self, arrivals: list[_Arrival], changes: Changes) -> None:
        kept = [arrival for arrival in arrivals if arrival.fate is not Fate.DROPPED]
        # A push is of one codec.
        codec = kept[0].group.codec if kept else storage.JSON_CODEC
        written = storage.write_contents([arrival.group.content for arrival in kept], codec=codec)
        for arrival, place in zip(kept, written, strict=True):
            arrival.place = place
        inline = [
            (arrival.item_id, arrival.place, arrival.group.content)
            for arrival in kept
            if not arrival.place.object
        ]
        with transaction.atomic() if inline else nullcontext():
            self._insert(arrivals, changes)
            storage.insert_contents(ItemKind.GROUPS, inline)

    def _insert(self, arrivals: list[_Arrival], changes: Changes) -> None:
        params = changes.params() | {
            "now": self.now,
            "producer": self.producer[:200],
            # One parameter: the driver takes a third of a millisecond to write nineteen arrays.
            "rows": msgspec.json.encode([_row(arrival) for arrival in arrivals]).decode(),
        }
        with storage.cursor() as cursor:
            if self.claim is None:
                cursor.execute(_INSERT, params, prepare=True)
                return
            params |= self.claim.params(self.receipts)
            self.claim.made(cursor.execute(_CLAIM_AND_INSERT, params, prepare=True).fetchone())


def _row(arrival: _Arrival) -> dict[str, Any]:
    group, place = arrival.group, arrival.place
    return {
        "id": arrival.item_id,
        "state": arrival.fate,
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
        "codec": place.codec,
        "crc32": place.crc32,
        "segment": place.segment,
        "object": place.object,
        "offset": place.offset,
    }


def _number(value: float) -> float | str:
    """Return a number as PostgreSQL reads it in JSON, which has no NaN and no infinity."""
    return value if math.isfinite(value) else str(value)


def _changes(run: Run, arrivals: list[_Arrival], plan: _Plan) -> Changes:
    changes = Changes(run.pk, ItemKind.GROUPS)
    for arrival in arrivals:
        reason = arrival.receipt.dropped or ""
        changes.accept([arrival.counted], arrival.fate, reason=reason)
    changes.move(plan.released_items(), Fate.WAITING, Fate.QUEUED)
    return changes


_noted: dict[tuple[int, str], datetime] = {}
_noted_lock = threading.Lock()


def _note(run: Run, groups: list[Group], *, now: datetime) -> None:
    """Write odd things down, each at most once a minute from one process."""
    for note in sorted({note for group in groups for note in group.notes}):
        with _noted_lock:
            last = _noted.get((run.pk, note))
            if last is not None and now - last < NOTE_EVERY:
                continue
            _noted[run.pk, note] = now
        runs_services.record_event(
            run_id=run.pk,
            kind="odd_groups",
            level="warning",
            message=f"accepted groups with an oddity: {note}",
            actor="buffer",
            now=now,
        )
