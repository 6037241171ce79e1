"""Labels of earlier versions become tags: in the database, and in restored archives."""

from importlib import import_module

import pytest
from django.db import connection

from buffer.archive.queries import ArchiveUnreadable
from buffer.archive.services.marks import checked_marks, marks_of_run, restore_marks
from buffer.inspect.models import GroupMark
from buffer.items.models import TrajectoryGroup
from runs.lifecycle.models import Run
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return make_run(name="restored", kind="outside", status="running")


def restored_groups(run: Run, *item_ids: int) -> None:
    for item_id in item_ids:
        TrajectoryGroup.objects.create(
            run=run,
            state="queued",
            origin=f"old:{item_id}",
            producer="bob",
            epoch=1,
            received_at=NOON,
            size_bytes=1,
            codec="json",
            sequences=1,
            tokens=1,
            longest_tokens=1,
            **dict.fromkeys(("score_mean", "score_min", "score_max", "score_std"), 0.0),
        )


def marks_by_origin() -> dict[str, tuple[list[str], str]]:
    rows = GroupMark.objects.values_list("group__origin", "tags", "note")
    return {origin: (tags, note) for origin, tags, note in rows}


def test_labels_become_tags_by_their_names_and_notes_stay() -> None:
    statement = import_module("buffer.migrations.0008_tags")._TAGS
    with connection.cursor() as cursor:
        # Temporary tables take precedence over those of the present version.
        cursor.execute(
            """CREATE TEMP TABLE buffer_groupmark (group_id int, run_id int, label int,
                tags varchar(64)[] DEFAULT '{}', note text) ON COMMIT DROP;
            CREATE TEMP TABLE buffer_labelname (run_id int, label int, name text) ON COMMIT DROP;
            INSERT INTO buffer_groupmark VALUES (1, 1, 3, '{}', 'a'), (2, 1, 4, '{}', ''),
                (3, 2, 3, '{}', ''), (4, 1, NULL, '{}', 'b'), (5, 2, 5, '{}', '');
            INSERT INTO buffer_labelname VALUES (1, 3, 'reward hack'), (2, 5, 'a "b"')"""
        )
        cursor.execute(statement)
        cursor.execute("SELECT group_id, tags, note FROM buffer_groupmark ORDER BY group_id")
        assert cursor.fetchall() == [
            (1, ["reward hack"], "a"),
            (2, ["label-4"], ""),
            (3, ["label-3"], ""),
            (4, [], "b"),
            (5, ["a 'b'"], ""),
        ]
        cursor.execute("DROP TABLE pg_temp.buffer_groupmark, pg_temp.buffer_labelname")


def test_marks_of_archives_are_restored(run: Run) -> None:
    restored_groups(run, 1, 2, 3)
    items = [
        {"item_id": 1, "tags": ["good", "odd"], "note": "n", "changed_by": "user:a"},
        {"item_id": 2, "tags": ["good"]},
        {"item_id": 9, "tags": ["of a group that is not here"]},
    ]

    marks = checked_marks({"groups": items})
    restore_marks(run=run, source="old", marks=marks, actor="user:b", now=NOON)

    assert marks_by_origin() == {"old:1": (["good", "odd"], "n"), "old:2": (["good"], "")}
    assert [one["tags"] for one in marks_of_run(run)["groups"]] == [["good", "odd"], ["good"]]


def test_labels_of_earlier_archives_are_restored_as_tags(run: Run) -> None:
    restored_groups(run, 1, 2, 3)
    earlier = {
        "labels": {"3": "reward hack"},
        "groups": [
            {"item_id": 1, "label": 3, "note": ""},
            {"item_id": 2, "label": 4, "note": "n"},
            {"item_id": 3, "label": None, "note": "", "is_pinned": True},
        ],
    }

    restore_marks(run=run, source="old", marks=checked_marks(earlier), actor="user:b", now=NOON)

    assert marks_by_origin() == {"old:1": (["reward hack"], ""), "old:2": (["label-4"], "n")}


def test_invalid_marks_of_archives_are_refused() -> None:
    with pytest.raises(ArchiveUnreadable, match=r"groups\[0\].tags\[0\]"):
        checked_marks({"groups": [{"item_id": 1, "tags": ["x" * 65]}]})
