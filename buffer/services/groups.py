"""Take trajectory groups in."""

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection, transaction

from buffer import selectors, storage
from buffer.core.fates import Fate, ItemKind
from buffer.core.mixed_sizes import WaitingGroups
from buffer.models import TrajectoryGroup
from buffer.services.tallies import Changes, Counted
from buffer.wire import Group
from runs import live
from runs import services as runs_services
from runs.core.lifecycle import ACCEPTING
from runs.models import Environment, Run

NOTE_EVERY: Final = timedelta(minutes=1)
_INSERT: Final = """
    INSERT INTO buffer_trajectorygroup
        (run_id, received_at, producer, drop_reason, epoch, id, state, env_id, sequences, tokens,
         longest_tokens, score_mean, score_min, score_max, score_std,
         codec, crc32, segment, object, "offset", size_bytes)
    SELECT %s, %s, %s, '', 0, r.*
    FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::int[], %s::bigint[],
                %s::int[], %s::float8[], %s::float8[], %s::float8[], %s::float8[],
                %s::text[], %s::bigint[], %s::int[], %s::text[], %s::bigint[], %s::int[]) AS r"""


class UnknownEnvironment(ValueError):
    """The run has no environment with this id."""

    def __init__(self, index: int, env_id: int) -> None:
        super().__init__(f"this run has no environment {env_id}")
        self.index = index


class QueueFull(Exception):
    """The run holds as many groups as this deck allows."""

    retry_after_seconds = 5


class RunNotAccepting(Exception):
    """The run has ended, or takes another kind of data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of one group: None when queued, else the sequences that wait with it."""

    waiting_sequences: int | None


@transaction.atomic
def accept_groups(*, run: Run, groups: list[Group], producer: str, now: datetime) -> list[Receipt]:
    """Store groups of one push, all or none, and queue those that need not wait.

    Raises:
        RunNotAccepting: If the run has ended.
        UnknownEnvironment: If a group names an environment that the run does not have.
        QueueFull: If the run's quota is reached.
    """
    if run.status not in ACCEPTING or run.archived_at is not None:
        raise RunNotAccepting(f"{run.name} is {run.status} and takes no data")
    if not groups:
        return []
    sizes = _group_sizes(run, groups)
    if selectors.open_items(run.pk, ItemKind.GROUPS) >= settings.ROLLDECK_MAX_QUEUED_GROUPS:
        raise QueueFull(f"{run.name} holds {settings.ROLLDECK_MAX_QUEUED_GROUPS} groups")
    # A lenient run takes groups without sequences; of those there is nothing to keep but the note.
    kept = [group for group in groups if group.sequences]
    ids = _new_ids(len(kept))
    plan = _Plan(run.pk, sizes)
    placed = iter([plan.place(item_id, group) for item_id, group in zip(ids, kept, strict=True)])
    _insert(run, list(zip(ids, kept, strict=True)), plan, producer=producer, now=now)
    plan.release()
    _count(run, list(zip(ids, kept, strict=True)), plan)
    _note(run, groups, now=now)
    live.announce(run.pk, "queue", "ledger")
    nothing_waits = Receipt(waiting_sequences=None)
    return [next(placed) if group.sequences else nothing_waits for group in groups]


def _group_sizes(run: Run, groups: list[Group]) -> dict[int, int]:
    """Return the group size of each environment that a group names."""
    wanted = {group.env_id for group in groups if group.env_id is not None}
    if not wanted:
        return {}
    known = dict(
        Environment.objects.filter(
            run=run, env_id__in=[env_id for env_id in wanted if 0 <= env_id < 2**31]
        ).values_list("env_id", "group_size")
    )
    for index, group in enumerate(groups):
        if group.env_id is not None and group.env_id not in known:
            if not run.lenient or not 0 <= group.env_id < 2**31:
                raise UnknownEnvironment(index, group.env_id)
            known[group.env_id] = 1
    return known


def _new_ids(count: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence('buffer_trajectorygroup', 'id'))"
            " FROM generate_series(1, %s)",
            [count],
        )
        return [item_id for (item_id,) in cursor.fetchall()]


class _Plan:
    """Decide which groups wait, environment by environment."""

    def __init__(self, run_id: int, sizes: dict[int, int]) -> None:
        self._run_id = run_id
        self._sizes = sizes
        self._waiting: dict[int, WaitingGroups] = {}
        self._before: dict[int, Counted] = {}
        self.held: set[int] = set()
        self.released: list[int] = []

    def place(self, item_id: int, group: Group) -> Receipt:
        """Queue a group or let it wait."""
        env_id = group.env_id
        if env_id is None or group.sequences >= self._sizes[env_id]:
            return Receipt(waiting_sequences=None)
        waiting = self._of(env_id)
        self.held.add(item_id)
        for done in waiting.add(item_id, group.sequences):
            if done in self.held:
                self.held.remove(done)
            else:
                self.released.append(done)
        return Receipt(waiting_sequences=waiting.sequences)

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
                .values_list("id", "sequences")
            )
            self._before |= {key: Counted(0, env_id, size) for key, size in rows}
            self._waiting[env_id] = WaitingGroups(group_size=self._sizes[env_id], waiting=rows)
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


def _insert(
    run: Run, groups: list[tuple[int, Group]], plan: _Plan, *, producer: str, now: datetime
) -> None:
    places = storage.write_contents(
        [group.content for _, group in groups], codec=storage.JSON_CODEC
    )
    rows = [
        (
            item_id,
            str(Fate.WAITING if item_id in plan.held else Fate.QUEUED),
            group.env_id,
            group.sequences,
            group.tokens,
            group.longest_tokens,
            group.score_mean,
            group.score_min,
            group.score_max,
            group.score_std,
            *place,
        )
        for (item_id, group), place in zip(groups, places, strict=True)
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    with storage.cursor() as cursor:
        cursor.execute(_INSERT, [run.pk, now, producer[:200], *columns])
    storage.insert_contents(
        ItemKind.GROUPS,
        [
            (item_id, place, group.content)
            for (item_id, group), place in zip(groups, places, strict=True)
        ],
    )


def _count(run: Run, groups: list[tuple[int, Group]], plan: _Plan) -> None:
    changes = Changes(run.pk, ItemKind.GROUPS)
    for fate, held in ((Fate.WAITING, True), (Fate.QUEUED, False)):
        changes.accept(
            [
                Counted(0, group.env_id, group.sequences)
                for item_id, group in groups
                if (item_id in plan.held) is held
            ],
            fate,
        )
    changes.move(plan.released_items(), Fate.WAITING, Fate.QUEUED)
    changes.write()


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
