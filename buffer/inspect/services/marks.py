"""Mark groups of a run: label them, pin them, write notes on them.

Marks have rows of their own. A group's own row is only referred to, so whoever forms, leases or
settles batches never waits for a person who looks through samples.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from buffer.inspect.models.marks import GroupMark, LabelName
from buffer.inspect.queries.group_lists import GroupNotFound
from buffer.inspect.rules import marks as rules
from buffer.inspect.rules.marks import Mark
from buffer.items.models.items import TrajectoryGroup
from runs.services import record_event

_TOLD: Final = 20
"""Groups whose marks an event tells one by one."""


def lock_marks(run_id: int) -> None:
    """Let nobody else change marks or sets of the run until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('rolldeck.marks'), %s::int)", [run_id]
        )


def groups_of_run(run_id: int, group_ids: Sequence[int], *, field: str) -> list[int]:
    """Return ids of groups, each once.

    Raises:
        InvalidMark: If there are none or too many.
        GroupNotFound: If one is none of the run's.
    """
    wanted = sorted(set(group_ids))
    if not 1 <= len(wanted) <= rules.MOST_AT_ONCE:
        raise rules.InvalidMark(field, f"1 to {rules.MOST_AT_ONCE} groups at a time")
    found = set(
        TrajectoryGroup.objects.filter(run_id=run_id, pk__in=wanted).values_list("pk", flat=True)
    )
    for group_id in wanted:
        if group_id not in found:
            raise GroupNotFound(f"the run has no group {group_id}")
    return wanted


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
    """Change some of `label`, `is_pinned` and `note` of groups; what is left out stays.

    An event keeps what was there before. A group that says so already is left alone.

    Raises:
        InvalidMark: If nothing is to change, or to something that cannot be.
        GroupNotFound: If a group is none of the run's; then nothing has changed.
    """
    if not changes:
        raise rules.InvalidMark("label", "one of label, is_pinned and note must be there")
    changes = rules.checked(changes)
    wanted = groups_of_run(run_id, group_ids, field="groups")
    lock_marks(run_id)
    before = {row.group_id: _mark_of(row) for row in GroupMark.objects.filter(group_id__in=wanted)}
    after = {group: before.get(group, Mark()).changed(changes) for group in wanted}
    changed = [group for group in wanted if after[group] != before.get(group, Mark())]
    if not changed:
        return
    _store(run_id, {group: after[group] for group in changed}, actor=actor, now=now)
    record_event(
        run_id=run_id,
        kind="groups_marked",
        message=f"{rules.said(changes)}: {_named(changed)}",
        actor=actor,
        reason=reason,
        details={
            "after": changes,
            "before": {
                str(group): _told(before.get(group, Mark()), changes) for group in changed[:_TOLD]
            },
        },
        now=now,
    )


def _mark_of(row: GroupMark) -> Mark:
    return Mark(label=row.label, is_pinned=row.is_pinned, note=row.note)


def _told(mark: Mark, changes: dict[str, Any]) -> dict[str, Any]:
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
                is_pinned=mark.is_pinned,
                note=mark.note,
                changed_by=actor[:200],
                changed_at=now,
            )
            for group, mark in marks.items()
            if not mark.is_empty
        ],
        update_conflicts=True,
        unique_fields=["group"],
        update_fields=["label", "is_pinned", "note", "changed_by", "changed_at"],
    )


@transaction.atomic
def name_label(
    *, run_id: int, label: int, name: str, actor: str, reason: str = "", now: datetime
) -> None:
    """Call a label of a run something; an empty name takes its name away.

    Raises:
        InvalidMark: If there is no such label, or the name is too long.
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
        message=f"label {label} is called {name!r}" if name else f"label {label} has no name",
        actor=actor,
        reason=reason,
        details={"label": label, "before": before, "after": name},
        now=now,
    )
