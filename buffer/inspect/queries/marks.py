"""Labels and notes of groups, and the labels of a run."""

from collections.abc import Sequence
from typing import Final

from django.db import connection

from buffer.inspect.models import GroupMark, LabelName
from buffer.inspect.rules.marks import LABELS
from buffer.inspect.schemas import LabelRow, MarkOfGroup, MarkVocabulary
from runs.access.queries import token_names

COUNTED: Final = 10_000
"""Maximum number of marked groups of a run that are counted, newest first."""
_COUNTS: Final = """
    SELECT label, count(*), count(*) FILTER (WHERE note <> '')
    FROM (
        SELECT label, note FROM buffer_groupmark
        WHERE run_id = %s ORDER BY group_id DESC LIMIT %s
    ) newest GROUP BY label"""


def marks_of(group_ids: Sequence[int]) -> dict[int, MarkOfGroup]:
    """Return the marks of groups; groups without marks are omitted."""
    rows = list(GroupMark.objects.filter(group_id__in=group_ids))
    tokens = token_names({row.changed_by for row in rows})
    return {
        row.group_id: MarkOfGroup(
            label=row.label,
            note=row.note,
            changed_by=tokens.get(
                row.changed_by, row.changed_by.partition(":")[2] or row.changed_by
            ),
            changed_at=row.changed_at,
        )
        for row in rows
    }


def vocabulary(run_id: int) -> MarkVocabulary:
    """Return the labels of a run with the number of groups of each, and of groups with notes."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, [run_id, COUNTED])
        counts = cursor.fetchall()
    names = dict(LabelName.objects.filter(run_id=run_id).values_list("label", "name"))
    groups = {label: number for label, number, _ in counts}
    return MarkVocabulary(
        labels=[
            LabelRow(label=label, name=names.get(label, ""), groups=groups.get(label, 0))
            for label in LABELS
        ],
        noted=sum(noted for _, _, noted in counts),
    )
