"""Labels and notes of a run's groups.

Marks are in separate rows that refer to groups, so marking never blocks the forming, leasing or
settling of batches.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from buffer.inspect.models import GroupMark, LabelName
from buffer.inspect.queries.group_lists import GroupNotFound
from buffer.inspect.rules import marks as rules
from buffer.inspect.rules.marks import Mark
from buffer.items.models import TrajectoryGroup
from runs.events.services import record_event

NAMED_AT_MOST: Final = 20
"""Maximum number of groups whose earlier marks an event records."""


def lock_marks(run_id: int) -> None:
    """Lock changes of a run's marks until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('rolldeck.marks'), %s::int)", [run_id]
        )


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
    changes: dict[str, Any],
    actor: str,
    reason: str = "",
    now: datetime,
) -> None:
    """Change `label` or `note` of groups; omitted fields are unchanged.

    An event records the earlier values. Groups that already have the values are skipped.

    Raises:
        InvalidMark: If there are no changes, or a value is invalid.
        GroupNotFound: If the run has no such group; nothing is changed.
    """
    if not changes:
        raise rules.InvalidMark("label", "at least one of label and note is required")
    changes = rules.checked(changes)
    ids = groups_of_run(run_id, group_ids, field="groups")
    lock_marks(run_id)
    before = {row.group_id: _mark_of(row) for row in GroupMark.objects.filter(group_id__in=ids)}
    after = {group: before.get(group, Mark()).changed(changes) for group in ids}
    changed = [group for group in ids if after[group] != before.get(group, Mark())]
    if not changed:
        return
    _store(run_id, {group: after[group] for group in changed}, actor=actor, now=now)
    record_event(
        run_id=run_id,
        kind="groups_marked",
        message=f"{rules.described(changes)}: {_named(changed)}",
        actor=actor,
        reason=reason,
        details={
            "after": changes,
            "before": {
                str(group): _event_fields(before.get(group, Mark()), changes)
                for group in changed[:NAMED_AT_MOST]
            },
        },
        now=now,
    )


def _mark_of(row: GroupMark) -> Mark:
    return Mark(label=row.label, note=row.note)


def _event_fields(mark: Mark, changes: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(mark, name) for name in changes}


def _named(groups: list[int]) -> str:
    return f"group {groups[0]}" if len(groups) == 1 else f"{len(groups)} groups"


def _store(run_id: int, marks: dict[int, Mark], *, actor: str, now: datetime) -> None:
    GroupMark.objects.filter(
        group_id__in=[group for group, mark in marks.items() if mark.is_empty]
    ).delete()
    GroupMark.objects.bulk_create(
        [
            GroupMark(
                group_id=group,
                run_id=run_id,
                label=mark.label,
                note=mark.note,
                changed_by=actor[:200],
                changed_at=now,
            )
            for group, mark in marks.items()
            if not mark.is_empty
        ],
        update_conflicts=True,
        unique_fields=["group"],
        update_fields=["label", "note", "changed_by", "changed_at"],
    )


@transaction.atomic
def name_label(
    *, run_id: int, label: int, name: str, actor: str, reason: str = "", now: datetime
) -> None:
    """Name a label of a run; an empty name removes the name.

    Raises:
        InvalidMark: If the label or the name is invalid.
    """
    rules.checked({"label": label})
    name = rules.label_name(name)
    lock_marks(run_id)
    row = LabelName.objects.filter(run_id=run_id, label=label).first()
    before = row.name if row else ""
    if name == before:
        return
    if name:
        LabelName.objects.update_or_create(run_id=run_id, label=label, defaults={"name": name})
    elif row:
        row.delete()
    record_event(
        run_id=run_id,
        kind="label_named",
        message=f"label {label} named {name!r}" if name else f"name of label {label} removed",
        actor=actor,
        reason=reason,
        details={"label": label, "before": before, "after": name},
        now=now,
    )
