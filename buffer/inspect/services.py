"""Digests, tags and notes of groups, and their removal from the queue.

Pushes do not wait for digests. A pass takes a bounded share of the time, so digests of busy runs
lag behind; the dashboard shows the lag. Marks are in separate rows that refer to groups, so marking
never blocks the forming, leasing or settling of batches.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from django.db import connection, transaction

from buffer.batches.services.settlement import drop_groups
from buffer.ingest.services.storage import json_number
from buffer.inspect.models import DigestCursor, GroupMark
from buffer.inspect.queries.group_contents import digests_of
from buffer.inspect.queries.group_lists import GroupNotFound
from buffer.inspect.rules import marks as rules
from buffer.inspect.rules.group_digest import GroupDigest, run_term
from buffer.inspect.rules.marks import Mark, MarkChange
from buffer.inspect.rules.numbers import (
    IgnoredNumber,
    Numbers,
    with_ignored,
)
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import DropReason, ItemState
from buffer.items.services import lock_run
from rolldeck.metric_names import environment_prefix
from runs.events.services import record_event
from runs.lifecycle.models import Environment, EnvironmentNumbers, Run
from web.live.announcements import announce
from web.sql import statements_of

SQL: Final = statements_of("buffer")


PASS_SECONDS: Final = 0.4
"""Time of one pass; passes run every two seconds and leave the rest to training."""
GROUPS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class _Row:
    written_in: str
    group_id: int
    env_id: int | None
    score_mean: float
    longest_tokens: int


def digest_groups(*, now: datetime, seconds: float = PASS_SECONDS) -> int:
    """Digest new groups of each run in turn, for about `seconds`; return the number digested."""
    ends_at = time.monotonic() + seconds
    digested = 0
    with connection.cursor() as sql:
        sql.execute(SQL["digests_due"])
        due = sql.fetchall()
    for run_id, accepted in due:
        while time.monotonic() < ends_at:
            count = digest_run(run_id=run_id, accepted=accepted, now=now)
            digested += count
            if count < GROUPS_AT_ONCE:
                break
    outdated = DigestCursor.objects.filter(renew_before__isnull=False)
    for run_id in outdated.order_by("digested_at").values_list("run_id", flat=True):
        # At least one part a pass: new groups may take all of the time.
        while count := renew_run(run_id):
            digested += count
            if time.monotonic() >= ends_at:
                return digested
    return digested


@transaction.atomic
def digest_run(*, run_id: int, accepted: int, now: datetime) -> int:
    """Digest the next groups of a run; return the number read.

    Args:
        run_id: The run.
        accepted: Number of groups that it had accepted before this call.
        now: Time of the pass.
    """
    DigestCursor.objects.get_or_create(run_id=run_id, defaults={"written_in": "0", "item_id": 0})
    # Skipped if another process digests this run.
    cursor = DigestCursor.objects.select_for_update(skip_locked=True).filter(run_id=run_id).first()
    if cursor is None:
        return 0
    with connection.cursor() as sql:
        sql.execute(SQL["groups_to_digest"], _position(cursor) | {"limit": GROUPS_AT_ONCE})
        rows = [_Row(*row) for row in sql.fetchall()]
    if rows:
        made = _store_digests(Run.with_deleted.get(pk=run_id), rows)
        _add_numbers(run_id, rows, made, now=now)
        cursor.written_in, cursor.item_id = rows[-1].written_in, rows[-1].group_id
    with connection.cursor() as sql:
        sql.execute(SQL["has_groups_to_digest"], _position(cursor))
        (is_more,) = sql.fetchone()
    if not is_more:
        cursor.accepted = accepted
    cursor.digested_at = now
    cursor.save()
    return len(rows)


@transaction.atomic
def renew_digests(run_id: int) -> None:
    """Mark the digests of a run's groups as outdated; the background renews them."""
    # Locked first: groups that are being digested now are renewed too.
    DigestCursor.objects.get_or_create(run_id=run_id, defaults={"written_in": "0", "item_id": 0})
    cursor = DigestCursor.objects.select_for_update().get(run_id=run_id)
    newest = TrajectoryGroup.objects.filter(run_id=run_id).order_by("-id")
    if group_id := newest.values_list("id", flat=True).first():
        cursor.renew_before = group_id + 1
        cursor.save(update_fields=["renew_before"])


@transaction.atomic
def renew_run(run_id: int) -> int:
    """Renew the next outdated digests of a run, newest first; return the number of groups."""
    # Skipped if another process digests this run.
    cursor = DigestCursor.objects.select_for_update(skip_locked=True).filter(run_id=run_id).first()
    if cursor is None or cursor.renew_before is None:
        return 0
    with connection.cursor() as sql:
        limits = {"run": run_id, "before": cursor.renew_before, "limit": GROUPS_AT_ONCE}
        sql.execute(SQL["groups_to_renew"], limits)
        rows = [_Row(*row) for row in sql.fetchall()]
    if rows:
        _store_digests(Run.with_deleted.get(pk=run_id), rows)
    cursor.renew_before = rows[-1].group_id if len(rows) == GROUPS_AT_ONCE else None
    cursor.save(update_fields=["renew_before"])
    return len(rows)


def _position(cursor: DigestCursor) -> dict[str, Any]:
    return {"run": cursor.run_id, "written_in": str(cursor.written_in), "item": cursor.item_id}


def _store_digests(run: Run, rows: list[_Row]) -> Mapping[int, GroupDigest]:
    """Store the digests of groups, and return them; groups that cannot be read get none."""
    made = digests_of(run, {row.group_id: row.env_id for row in rows})
    digests = []
    for row in rows:
        if (found := made.get(row.group_id)) is None:
            continue
        digests.append(
            {
                "id": row.group_id,
                "lesson": found.lesson,
                "worker": found.worker,
                "example": found.example,
                "scores": [json_number(score) for score in found.scores],
                "lengths": found.lengths,
                "truncated": found.truncated,
                "duplicates": found.duplicates,
                "excerpt": found.excerpt,
                "answer": found.answer,
                "prompt": None if found.prompt is None else str(found.prompt),
                "text": found.text,
                "is_cut": found.is_cut,
                "score_mean": json_number(row.score_mean),
                "longest_tokens": row.longest_tokens,
                "has_gradient": found.has_gradient,
                "facts": found.facts,
                "advantages": found.advantages,
                "correct": found.correct,
            }
        )
    params: dict[str, Any] = {
        "run": run.pk,
        "word": run_term(run.pk),
        "rows": msgspec.json.encode(digests).decode(),
    }
    with connection.cursor() as sql:
        sql.execute(SQL["insert_digests"], params)
    return made


def _add_numbers(
    run_id: int, rows: list[_Row], made: Mapping[int, GroupDigest], *, now: datetime
) -> None:
    """Add the numbers of new groups to those of their environments.

    Groups of a lesson are left out: their outcomes have the numbers.
    """
    names: dict[int | None, str] = dict(
        Environment.objects.filter(run_id=run_id).values_list("env_id", "desired_name")
    )
    by_environment = defaultdict[str, list[Numbers]](list)
    for row in rows:
        found = made.get(row.group_id)
        if found is None or (row.env_id is None and found.lesson):
            continue
        if found.numbers.sums or found.numbers.ignored:
            by_environment[names.get(row.env_id, "")].append(found.numbers)
    # In a fixed order, so that two passes do not deadlock.
    for name in sorted(by_environment):
        EnvironmentNumbers.objects.bulk_create(
            [EnvironmentNumbers(run_id=run_id, environment=name)], ignore_conflicts=True
        )
        stored = EnvironmentNumbers.objects.select_for_update().get(run_id=run_id, environment=name)
        numbers = Numbers(sums={key: (total, n) for key, (total, n) in stored.pending.items()})
        for one in by_environment[name]:
            stored.keys += numbers.merge(one, prefix=environment_prefix(name), known={*stored.keys})
        stored.pending = numbers.sums
        stored.ignored = with_ignored(stored.ignored, numbers, now=now)
        stored.save()


class EnvironmentNumber(NamedTuple):
    """Mean of the values of a key since the last measurement."""

    environment: str
    key: str
    mean: float
    values: int

    @property
    def series(self) -> str:
        """Name of its series."""
        return environment_prefix(self.environment) + self.key


def take_numbers(run_id: int) -> list[EnvironmentNumber]:
    """Take the pending numbers of a run's environments, in the transaction that stores them."""
    rows = EnvironmentNumbers.objects.select_for_update().filter(run_id=run_id)
    found = []
    for row in rows.exclude(pending={}).order_by("environment"):
        for key, (total, count) in row.pending.items():
            found.append(EnvironmentNumber(row.environment, key, total / count, count))
        row.pending = {}
        row.save(update_fields=["pending"])
    return found


def ignore_numbers(run_id: int, refused: Sequence[EnvironmentNumber], *, now: datetime) -> None:
    """Count numbers without a series, because their run has the maximum number of metrics."""
    for name in sorted({one.environment for one in refused}):
        numbers = Numbers()
        for one in refused:
            if one.environment == name:
                numbers.ignore(IgnoredNumber.TOO_MANY_NAMES, one.key, one.values)
        row = EnvironmentNumbers.objects.select_for_update().get(run_id=run_id, environment=name)
        row.ignored = with_ignored(row.ignored, numbers, now=now)
        row.save(update_fields=["ignored"])


NAMED_AT_MOST: Final = 20
"""Maximum number of groups whose earlier marks an event records."""


def lock_marks(run_id: int) -> None:
    """Lock changes of a run's marks until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["lock_marks"], [run_id])


def groups_of_run(run_id: int, group_ids: Sequence[int], *, field: str) -> list[int]:
    """Return distinct, existing group ids, sorted.

    Raises:
        InvalidMark: If there are none or too many.
        GroupNotFound: If the run has no such group.
    """
    ids = sorted(set(group_ids))
    if not 1 <= len(ids) <= rules.MOST_AT_ONCE:
        raise rules.InvalidMark(
            field, f"has {len(ids)} groups, must have 1 to {rules.MOST_AT_ONCE}"
        )
    found = set(
        TrajectoryGroup.objects.filter(run_id=run_id, pk__in=ids).values_list("pk", flat=True)
    )
    for group_id in ids:
        if group_id not in found:
            raise GroupNotFound(f"the run has no group {group_id}")
    return ids


@transaction.atomic
def mark_groups(
    *,
    run_id: int,
    group_ids: Sequence[int],
    change: MarkChange,
    actor: str,
    reason: str = "",
    now: datetime,
) -> list[int]:
    """Change tags or notes of groups; return their ids.

    An event records the earlier values. Groups that already have the values are skipped.

    Raises:
        InvalidMark: If a group would have too many tags, or no groups are named, or too many.
        GroupNotFound: If the run has no such group; nothing is changed.
    """
    ids = groups_of_run(run_id, group_ids, field="groups")
    lock_marks(run_id)
    before = dict.fromkeys(ids, Mark()) | {
        row.group_id: Mark(tags=tuple(row.tags), note=row.note)
        for row in GroupMark.objects.filter(group_id__in=ids)
    }
    after = {group: change.applied(mark) for group, mark in before.items()}
    changed = [group for group in ids if after[group] != before[group]]
    if not changed:
        return ids
    GroupMark.objects.filter(
        group_id__in=[group for group in changed if after[group].is_empty]
    ).delete()
    GroupMark.objects.bulk_create(
        [
            GroupMark(
                group_id=group,
                run_id=run_id,
                tags=list(after[group].tags),
                note=after[group].note,
                changed_by=actor[:200],
                changed_at=now,
            )
            for group in changed
            if not after[group].is_empty
        ],
        update_conflicts=True,
        unique_fields=["group"],
        update_fields=["tags", "note", "changed_by", "changed_at"],
    )
    record_event(
        run_id=run_id,
        kind="groups_marked",
        message=f"{change}: "
        + (f"group {changed[0]}" if len(changed) == 1 else f"{len(changed)} groups"),
        actor=actor,
        reason=reason,
        details={
            "after": {
                "add_tags": sorted(change.add_tags),
                "remove_tags": sorted(change.remove_tags),
                "note": change.note,
            },
            "before": {str(group): asdict(before[group]) for group in changed[:NAMED_AT_MOST]},
        },
        now=now,
    )
    return ids


_IN_THE_QUEUE: Final = (ItemState.WAITING, ItemState.QUEUED)
_REFUSALS: Final = {
    ItemState.LEASED: "its batch is leased to a trainer",
    ItemState.QUARANTINED: "its batch is quarantined: release or discard the batch",
    ItemState.SERVED: "it has already been trained on",
}


@transaction.atomic
def discard_groups(
    *, run_id: int, group_ids: Sequence[int], actor: str, reason: str, now: datetime
) -> dict[int, str]:
    """Drop waiting and queued groups permanently, with the reason `discarded`.

    Groups that are already discarded are skipped, so the call is idempotent.

    Returns:
        The reasons why groups were not discarded, by group id.

    Raises:
        InvalidMark: If no groups are named, or too many.
        GroupNotFound: If the run has no such group; nothing is changed.
    """
    found = groups_of_run(run_id, group_ids, field="groups")
    # The lock prevents forming of batches, so queued groups stay queued until they are dropped.
    lock_run(run_id)
    dropped = drop_groups(run_id, reason=DropReason.DISCARDED, states=_IN_THE_QUEUE, pk__in=found)
    if dropped:
        record_event(
            run_id=run_id,
            kind="groups_discarded",
            level="warning",
            message=f"{dropped} {'group was' if dropped == 1 else 'groups were'} discarded",
            actor=actor,
            reason=reason,
            details={"groups": found, "discarded": dropped},
            now=now,
        )
        announce(run_id, "queue", "ledger")
    rows = TrajectoryGroup.objects.filter(pk__in=found)
    problems = {}
    for group, state, why in rows.values_list("pk", "state", "drop_reason"):
        if state != ItemState.DROPPED:
            problems[group] = _REFUSALS.get(ItemState(state), f"it is {state}")
        elif why != DropReason.DISCARDED:
            problems[group] = f"it was already dropped: {why}"
    return problems
