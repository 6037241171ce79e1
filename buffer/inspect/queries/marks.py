"""Marks of groups, and labels and sets of a run."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection

from buffer.inspect.models.marks import GroupMark, GroupSet, LabelName, SetMember
from buffer.inspect.rules.marks import LABELS
from runs.access.queries.audit import token_names
from web.rules.errors import NotFound

COUNTED: Final = 10_000
"""Maximum number of marked groups of a run that are counted, newest first."""
_COUNTS: Final = """
    SELECT label, count(*), count(*) FILTER (WHERE is_pinned), count(*) FILTER (WHERE note <> '')
    FROM (
        SELECT label, is_pinned, note FROM buffer_groupmark
        WHERE run_id = %s ORDER BY group_id DESC LIMIT %s
    ) newest GROUP BY label"""


class SetNotFound(NotFound):
    """The run has no such set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRow:
    """Label, pin, note and sets of a group."""

    label: int | None = None
    is_pinned: bool = False
    note: str = ""
    sets: tuple[str, ...] = ()
    """Names of the sets that contain it, in order."""
    changed_by: str = ""
    """Identity that last changed a mark; empty if the group is only in sets."""
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """A set of groups."""

    name: str
    groups: int
    created_by: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Labels, marks and sets of a run, with counts over its newest marked groups."""

    names: dict[int, str]
    labels: dict[int, int]
    pinned: int
    noted: int
    sets: list[SetRow]


UNMARKED: Final = MarkRow()


def marks_of(group_ids: Sequence[int]) -> dict[int, MarkRow]:
    """Return the marks of groups; groups without marks are omitted."""
    sets: dict[int, list[str]] = defaultdict(list)
    members = SetMember.objects.filter(group_id__in=group_ids).order_by("set__name")
    for group_id, name in members.values_list("group_id", "set__name"):
        sets[group_id].append(name)
    rows = {row.group_id: row for row in GroupMark.objects.filter(group_id__in=group_ids)}
    names = display_names({row.changed_by for row in rows.values()})
    found = {
        group: MarkRow(
            label=row.label,
            is_pinned=row.is_pinned,
            note=row.note,
            sets=tuple(sets.pop(group, ())),
            changed_by=names[row.changed_by],
            changed_at=row.changed_at,
        )
        for group, row in rows.items()
    }
    return found | {group: MarkRow(sets=tuple(each)) for group, each in sets.items()}


def display_names(identities: set[str]) -> dict[str, str]:
    """Return display names of identities: the name of a user or a token."""
    tokens = token_names(identities)
    return {one: tokens.get(one, one.partition(":")[2] or one) for one in identities}


def vocabulary(run_id: int) -> Vocabulary:
    """Return the labels and sets of a run with their group counts."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, [run_id, COUNTED])
        counts = cursor.fetchall()
    named = dict(LabelName.objects.filter(run_id=run_id).values_list("label", "name"))
    return Vocabulary(
        names={label: named.get(label, "") for label in LABELS},
        labels={label: groups for label, groups, _, _ in counts if label is not None},
        pinned=sum(pinned for _, _, pinned, _ in counts),
        noted=sum(noted for _, _, _, noted in counts),
        sets=_sets(run_id),
    )


def _sets(run_id: int) -> list[SetRow]:
    found = list(GroupSet.objects.filter(run_id=run_id).order_by("name"))
    names = display_names({row.created_by for row in found})
    return [
        SetRow(
            name=row.name,
            groups=row.groups,
            created_by=names[row.created_by],
            created_at=row.created_at,
        )
        for row in found
    ]
