"""Marks of groups in archives: export, and restoration onto restored groups.

Archives of earlier versions have labels from 1 to 9, with names, in place of tags.
"""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from django.db import transaction
from msgspec import Meta, Struct

from buffer.archive.queries import ArchiveUnreadable
from buffer.inspect.models import GroupMark
from buffer.inspect.rules.marks import LONGEST_NOTE, LONGEST_TAG, MOST_TAGS
from buffer.inspect.services import lock_marks
from buffer.items.models import TrajectoryGroup
from runs.lifecycle.models import Run

_ARCHIVED: Final = 10_000
"""Maximum number of marked groups of an archive, newest first."""
_AT_ONCE: Final = 500
_Tag = Annotated[str, Meta(min_length=1, max_length=LONGEST_TAG)]


class MarkOfItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Marks of one group."""

    item_id: int
    tags: Annotated[list[_Tag], Meta(max_length=MOST_TAGS)] = []
    label: Annotated[int, Meta(ge=1, le=9)] | None = None
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] = ""
    changed_by: Annotated[str, Meta(max_length=200)] = ""
    changed_at: datetime | None = None


class ArchivedMarks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Marks of a run's groups: of the newest 10,000 marked groups."""

    labels: dict[int, _Tag] = {}
    groups: list[MarkOfItem] = []

    def tags_of(self, item: MarkOfItem) -> list[str]:
        """Return the tags of an item; a label is a tag."""
        label = [] if item.label is None else [self.labels.get(item.label, f"label-{item.label}")]
        return sorted({text for tag in (*item.tags, *label) if (text := tag.replace("\x00", ""))})


def marks_of_run(run: Run) -> dict[str, Any]:
    """Return the marks of a run for an archive."""
    rows = GroupMark.objects.filter(run=run).order_by("-group")[:_ARCHIVED]
    groups = [
        MarkOfItem(
            item_id=row.group_id,
            tags=row.tags,
            note=row.note,
            changed_by=row.changed_by,
            changed_at=row.changed_at,
        )
        for row in reversed(rows)
    ]
    found: dict[str, Any] = msgspec.to_builtins(ArchivedMarks(groups=groups), str_keys=True)
    return found


def checked_marks(raw: Any) -> ArchivedMarks:
    """Validate and return the marks of an archive.

    Raises:
        ArchiveUnreadable: If they do not have the format of :func:`marks_of_run`.
    """
    try:
        return msgspec.convert(raw, ArchivedMarks, strict=False)
    except msgspec.ValidationError as error:
        raise ArchiveUnreadable(f"the archive's marks are invalid: {error}") from error


@transaction.atomic
def restore_marks(
    *, run: Run, source: str, marks: ArchivedMarks, actor: str, now: datetime
) -> None:
    """Store marks of the groups restored from `source`; existing marks are kept."""
    lock_marks(run.pk)
    for first in range(0, len(marks.groups), _AT_ONCE):
        some = marks.groups[first : first + _AT_ONCE]
        origins = {f"{source}:{one.item_id}": one.item_id for one in some}
        groups = TrajectoryGroup.objects.filter(run=run, origin__in=list(origins))
        # The ids of the restored groups, by their ids in the archive's run.
        here = {origins[origin]: group for group, origin in groups.values_list("pk", "origin")}
        GroupMark.objects.bulk_create(
            [
                GroupMark(
                    run=run,
                    group_id=here[one.item_id],
                    tags=marks.tags_of(one),
                    note=one.note.replace("\x00", ""),
                    changed_by=one.changed_by or actor[:200],
                    changed_at=one.changed_at or now,
                )
                for one in some
                if one.item_id in here and (marks.tags_of(one) or one.note.replace("\x00", ""))
            ],
            ignore_conflicts=True,
        )
