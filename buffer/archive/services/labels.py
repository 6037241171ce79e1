"""Marks of groups in archives: export, and restoration onto restored groups."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from django.db import transaction
from msgspec import Meta, Struct

from buffer.archive.queries.parquet import ArchiveUnreadable
from buffer.inspect.models.marks import GroupMark, GroupSet, LabelName, SetMember
from buffer.inspect.queries.marks import COUNTED
from buffer.inspect.rules.marks import LONGEST_LABEL_NAME, LONGEST_NOTE, InvalidMark, set_name
from buffer.inspect.services.marks import lock_marks
from buffer.items.models.items import TrajectoryGroup
from runs.lifecycle.models.runs import Run

_AT_ONCE: Final = 500
_Label = Annotated[int, Meta(ge=1, le=9)]


class MarkOfItem(Struct, frozen=True, kw_only=True):
    """Marks of one group."""

    item_id: int
    label: _Label | None = None
    is_pinned: bool = False
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] = ""
    sets: list[str] = []
    changed_by: Annotated[str, Meta(max_length=200)] = ""
    changed_at: datetime | None = None


class ArchivedMarks(Struct, frozen=True, kw_only=True):
    """Marks of a run's groups: of the newest 10,000 marked groups."""

    labels: dict[_Label, Annotated[str, Meta(max_length=LONGEST_LABEL_NAME)]] = {}
    groups: list[MarkOfItem] = []


def marks_of_run(run: Run) -> dict[str, Any]:
    """Return the marks of a run for an archive."""
    sets: dict[int, list[str]] = {}
    members = SetMember.objects.filter(set__run=run).order_by("-group_id")[:COUNTED]
    for group_id, name in members.values_list("group_id", "set__name"):
        sets.setdefault(group_id, []).append(name)
    marked = GroupMark.objects.filter(run=run).order_by("-group")[:COUNTED]
    rows = {row.group_id: row for row in marked}
    groups = [_mark_of(group_id, rows.get(group_id), sets) for group_id in sorted({*rows, *sets})]
    names = dict(LabelName.objects.filter(run=run).values_list("label", "name"))
    found: dict[str, Any] = msgspec.to_builtins(
        ArchivedMarks(labels=names, groups=groups), str_keys=True
    )
    return found


def _mark_of(group_id: int, row: GroupMark | None, sets: dict[int, list[str]]) -> MarkOfItem:
    names = sets.get(group_id, [])
    if row is None:
        return MarkOfItem(item_id=group_id, sets=names)
    return MarkOfItem(
        item_id=group_id,
        label=row.label,
        is_pinned=row.is_pinned,
        note=row.note,
        sets=names,
        changed_by=row.changed_by,
        changed_at=row.changed_at,
    )


def checked_marks(raw: Any) -> ArchivedMarks:
    """Validate and return the marks of an archive.

    Raises:
        ArchiveUnreadable: If they do not have the format of :func:`marks_of_run`.
    """
    try:
        found = msgspec.convert(raw, ArchivedMarks, strict=False)
        for name in {name for group in found.groups for name in group.sets}:
            set_name(name)
    except (msgspec.ValidationError, InvalidMark) as error:
        raise ArchiveUnreadable(f"the archive's marks are invalid: {error}") from error
    return found


@transaction.atomic
def restore_marks(
    *, run: Run, source: str, marks: ArchivedMarks, actor: str, now: datetime
) -> None:
    """Store marks of the groups restored from `source`; existing marks are kept."""
    lock_marks(run.pk)
    LabelName.objects.bulk_create(
        [LabelName(run=run, label=label, name=name) for label, name in marks.labels.items()],
        ignore_conflicts=True,
    )
    for first in range(0, len(marks.groups), _AT_ONCE):
        some = marks.groups[first : first + _AT_ONCE]
        here = _restored(run, source, some)
        GroupMark.objects.bulk_create(
            [
                _mark(run, here[one.item_id], one, actor, now)
                for one in some
                if _is_restorable(one, here)
            ],
            ignore_conflicts=True,
        )
        for name in sorted({name for one in some for name in one.sets}):
            inside = [here[one.item_id] for one in some if name in one.sets and one.item_id in here]
            _fill(run, name, inside, actor=actor, now=now)


def _restored(run: Run, source: str, marks: list[MarkOfItem]) -> dict[int, int]:
    """Return the ids of restored groups, by their ids in the archive's run."""
    origins = {f"{source}:{one.item_id}": one.item_id for one in marks}
    found = TrajectoryGroup.objects.filter(run=run, origin__in=list(origins))
    return {origins[origin]: group for group, origin in found.values_list("pk", "origin")}


def _is_restorable(one: MarkOfItem, here: dict[int, int]) -> bool:
    return one.item_id in here and bool(one.label or one.is_pinned or one.note)


def _mark(run: Run, group_id: int, one: MarkOfItem, actor: str, now: datetime) -> GroupMark:
    return GroupMark(
        run=run,
        group_id=group_id,
        label=one.label,
        is_pinned=one.is_pinned,
        note=one.note.replace("\x00", ""),
        changed_by=one.changed_by or actor[:200],
        changed_at=one.changed_at or now,
    )


def _fill(run: Run, name: str, groups: list[int], *, actor: str, now: datetime) -> None:
    found, _ = GroupSet.objects.get_or_create(
        run=run, name=name, defaults={"created_by": actor[:200], "created_at": now}
    )
    SetMember.objects.bulk_create(
        [
            SetMember(set=found, group_id=group, added_by=actor[:200], added_at=now)
            for group in groups
        ],
        ignore_conflicts=True,
    )
    found.groups = found.members.count()
    found.save(update_fields=["groups"])
