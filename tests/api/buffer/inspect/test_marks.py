"""Labels and notes of groups: filters, exports and archives."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from buffer.inspect.models import GroupMark
from buffer.inspect.rules.marks import MOST_AT_ONCE
from buffer.inspect.services import mark_groups
from buffer.items.models import TrajectoryGroup
from runs.events.models import RunEvent
from tests.api.buffer.inspect.test_group_lists import Server, scored, user_messages
from tests.factories import NOON, make_user

pytestmark = pytest.mark.django_db(transaction=True)


class Marking(Server):
    """A server on which Alice may operate and Vera may look."""

    def __init__(self) -> None:
        super().__init__()
        self.alice, self.vera = Client(), Client()
        self.alice.force_login(make_user(username="alice", role="operator"))
        self.vera.force_login(make_user(username="vera", role="viewer"))

    def send(self, path: str, content: Any, *, client: Client | None = None) -> Any:
        method = "put" if path.startswith("/labels") else "post"
        return getattr(client or self.alice, method)(
            f"/api/v1/runs/demo{path}", json.dumps(content), content_type="application/json"
        )

    def mark(self, *groups: int, **changes: Any) -> Any:
        answer = self.send("/marks", {"groups": list(groups), **changes})
        assert answer.status_code == 200, answer.content
        return answer.json()

    def marks(self) -> dict[int, Any]:
        return {int(row["id"]): row["mark"] for row in self.get()["results"]}


@pytest.fixture
def server() -> Marking:
    return Marking()


@pytest.fixture
def groups(server: Marking) -> Iterator[list[int]]:
    group_ids = server.push(*(scored(float(mark), 1.0, mark=mark) for mark in range(4)))
    server.digest()
    rows = list(TrajectoryGroup.objects.order_by("pk").values())
    yield group_ids
    # Whatever was said: the rows of the queue are as they were.
    assert list(TrajectoryGroup.objects.order_by("pk").values()) == rows


def test_label_and_note_of_a_group_have_author_and_time(server: Marking, groups: list[int]) -> None:
    server.mark(groups[0], label=3)
    server.mark(groups[0], note="  hacks the\nreward ")

    mark = server.marks()[groups[0]]
    assert (mark["label"], mark["note"]) == (3, "hacks the\nreward")
    assert mark["changed_by"] == "alice"
    assert mark["changed_at"] is not None
    assert server.get(f"/{groups[0]}")["group"]["mark"] == mark
    assert server.marks()[groups[1]] is None


def test_removed_marks_leave_no_row(server: Marking, groups: list[int]) -> None:
    server.mark(*groups, label=3)
    server.mark(groups[0], note="look again")
    words = server.mark(*groups, label=None)

    assert GroupMark.objects.values_list("group_id", flat=True).get() == groups[0]
    assert words["noted"] == 1
    assert [row["groups"] for row in words["labels"]] == [0] * 9


def test_marked_groups_are_found_by_label_and_note(server: Marking, groups: list[int]) -> None:
    first, second, third, _ = groups
    server.mark(first, second, label=2)
    server.mark(third, label=9)
    server.mark(second, note="odd")

    assert server.ids("label:2") == [second, first]
    assert server.ids("label:2,9") == [third, second, first]
    assert server.ids("is:noted") == [second]
    assert server.ids("is:noted label:2") == [second]
    assert server.ids("is:noted label:9") == []
    assert server.ids("is:noted label:2", sort="score") == [second]
    assert server.ids("label:2,9", sort="-score") == [third, second, first]
    assert server.ids("label:2 nothing said") == []


def test_marked_groups_are_listed_a_page_at_a_time(server: Marking, groups: list[int]) -> None:
    server.mark(*groups, label=1)

    first = server.get(q="label:1", limit=3)
    second = server.get(q="label:1", limit=3, cursor=first["next"])

    assert [int(row["id"]) for row in first["results"] + second["results"]] == groups[::-1]
    assert second["next"] is None
    beside = second["results"][0]["id"]
    assert server.ids("label:1", limit=1, from_group=beside, backward=1) == [groups[1]]


def test_every_change_is_audited_once_with_the_previous_values(
    server: Marking, groups: list[int]
) -> None:
    server.mark(groups[0], label=3, reason="first look")
    server.mark(groups[0], label=3)
    server.mark(*groups[:2], label=4)
    server.send("/labels/4", {"name": "good"})
    server.send("/labels/4", {"name": "good"})

    entries = list(
        RunEvent.objects.filter(actor="user:alice").order_by("id").values_list("kind", "message")
    )
    assert entries == [
        ("groups_marked", f"label 3: group {groups[0]}"),
        ("groups_marked", "label 4: 2 groups"),
        ("label_named", "label 4 named 'good'"),
    ]
    first, second, _ = RunEvent.objects.filter(actor="user:alice").order_by("id")
    assert first.reason == "first look"
    assert second.details["before"] == {
        str(groups[0]): {"label": 3},
        str(groups[1]): {"label": None},
    }


@pytest.mark.parametrize(
    ("path", "content", "field"),
    [
        ("/marks", {"label": 0}, "label"),
        ("/marks", {"label": 10}, "label"),
        ("/marks", {"note": "x" * 2001}, "note"),
        ("/marks", {"note": 3}, "note"),
        ("/marks", {}, "label"),
        ("/marks", {"label": 1, "groups": []}, "groups"),
        ("/marks", {"label": 1, "groups": [1] * (MOST_AT_ONCE + 1)}, "groups"),
        ("/labels/1", {"name": "x" * 41}, "name"),
        ("/labels/10", {"name": "x"}, "label"),
        ("/marks", {"is_pinned": True}, "is_pinned"),
    ],
)
def test_invalid_marks_are_refused_with_their_field(
    server: Marking, groups: list[int], path: str, content: dict[str, Any], field: str
) -> None:
    body = {"groups": groups[:1]} | content if path == "/marks" else content

    answer = server.send(path, body)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
    assert not GroupMark.objects.exists()


@pytest.mark.parametrize("query", [{"label": "0"}, {"mark": "pinned"}, {"prompt": "x"}])
def test_an_invalid_filter_is_refused_with_its_field(
    server: Marking, query: dict[str, str]
) -> None:
    assert server.refused(**query) == (400, next(iter(query)))


def test_groups_of_another_run_cannot_be_marked(server: Marking, groups: list[int]) -> None:
    assert server.send("/marks", {"groups": [groups[0], 999_999], "label": 1}).status_code == 404
    assert not GroupMark.objects.exists()


def test_a_viewer_cannot_change_marks(server: Marking, groups: list[int]) -> None:
    server.mark(groups[0], label=1)

    assert server.vera.get("/api/v1/runs/demo/marks").json()["labels"][0]["groups"] == 1
    refused = server.send("/marks", {"groups": groups, "label": 2}, client=server.vera)
    assert refused.status_code == 403
    assert server.marks()[groups[0]]["label"] == 1


def test_concurrent_changes_of_two_people_are_both_stored(
    server: Marking, groups: list[int]
) -> None:
    def change(changes: dict[str, Any]) -> None:
        mark_groups(
            run_id=server.run.pk, group_ids=groups, changes=changes, actor="user:x", now=NOON
        )
        connection.close()

    with ThreadPoolExecutor(max_workers=2) as people:
        list(people.map(change, [{"label": 5}, {"note": "both"}]))

    assert set(GroupMark.objects.values_list("label", "note")) == {(5, "both")}


def test_an_export_of_a_label_contains_the_marks_of_its_groups(
    server: Marking, groups: list[int]
) -> None:
    server.mark(groups[1], groups[2], label=7)
    server.mark(groups[1], note="the best")

    answer = server.http.get(
        "/api/v1/runs/demo/groups/export", {"q": "label:7"}, headers={"Authorization": server.token}
    )

    later, earlier = [json.loads(line) for line in b"".join(answer).splitlines()]
    assert [later["id"], earlier["id"]] == [groups[2], groups[1]]
    assert (earlier["label"], earlier["note"]) == (7, "the best")
    assert (later["label"], later["note"]) == (7, "")
    assert earlier["group"]["scores"] == [1.0, 1.0]


def test_marks_survive_a_reset_of_the_run(server: Marking, groups: list[int]) -> None:
    server.mark(groups[0], label=1)

    server.send("/reset", {"reason": "anew"})

    assert GroupMark.objects.get(run=server.run).label == 1


def test_reads_change_no_state(server: Marking, groups: list[int]) -> None:
    before = RunEvent.objects.count()

    server.get(q="label:1")
    server.get(q="is:noted")
    server.vera.get("/api/v1/runs/demo/marks")

    assert RunEvent.objects.count() == before
    assert not GroupMark.objects.exists()


def test_groups_of_one_prompt_are_found_in_every_run(server: Marking) -> None:
    questions = user_messages("What is 2 + 2?", "What is 2 + 2?")
    answered = [[*row, {"role": "assistant", "content": "4"}] for row in questions]
    one, other, last = server.push(
        scored(0.0, 1.0, messages=answered),
        scored(1.0, 1.0, mark=7, messages=questions),
        scored(0.0, 1.0, messages=user_messages("What is 3 + 3?", "x")),
    )
    server.digest()

    prompts = {one: server.get(f"/{one}")["group"]["prompt"] for one in server.ids()}
    assert prompts[one] == prompts[other] != prompts[last]
    assert server.ids(f"prompt:{prompts[one]}") == [other, one]
    assert server.ids(f"prompt:{prompts[one]}", sort="-score") == [other, one]
