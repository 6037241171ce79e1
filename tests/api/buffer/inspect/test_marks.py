"""Tags and notes of groups: filters, exports and archives."""

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.test import Client

from buffer.inspect.models import GroupMark
from buffer.inspect.rules.marks import MOST_AT_ONCE, MarkChange
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

    def send(self, content: Any, *, client: Client | None = None, path: str = "/marks") -> Any:
        return (client or self.alice).post(
            f"/api/v1/runs/demo{path}", json.dumps(content), content_type="application/json"
        )

    def mark(self, *groups: int, **changes: Any) -> dict[int, Any]:
        answer = self.send({"groups": list(groups), **changes})
        assert answer.status_code == 200, answer.content
        return {row["id"]: row["mark"] for row in answer.json()["results"]}

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


def test_tags_and_note_of_a_group_have_author_and_time(server: Marking, groups: list[int]) -> None:
    server.mark(groups[0], add_tags=["reward hack", "look again"])
    answered = server.mark(groups[0], add_tags=["  a \t b "], note="  hacks the\nreward ")

    mark = server.marks()[groups[0]]
    assert mark["tags"] == ["a b", "look again", "reward hack"]
    assert mark["note"] == "hacks the\nreward"
    assert mark["changed_by"] == "alice"
    assert mark["changed_at"] is not None
    assert server.get(f"/{groups[0]}")["group"]["mark"] == mark == answered[groups[0]]
    assert server.marks()[groups[1]] is None


def test_removed_marks_leave_no_row(server: Marking, groups: list[int]) -> None:
    server.mark(*groups, add_tags=["good"])
    server.mark(groups[0], note="look again")
    answered = server.mark(*groups, remove_tags=["good", "never set"])

    assert GroupMark.objects.values_list("group_id", flat=True).get() == groups[0]
    assert [group for group, mark in answered.items() if mark is not None] == [groups[0]]


def test_tags_of_several_groups_are_added_and_removed_without_the_others(
    server: Marking, groups: list[int]
) -> None:
    server.mark(groups[0], add_tags=["own"])
    server.mark(*groups[:2], add_tags=["shared", "old"])

    server.mark(*groups[:3], add_tags=["new"], remove_tags=["old"])

    tags = {group: mark and mark["tags"] for group, mark in server.marks().items()}
    assert [tags[group] for group in groups] == [
        ["new", "own", "shared"],
        ["new", "shared"],
        ["new"],
        None,
    ]


def test_marked_groups_are_found_by_tag_and_note(server: Marking, groups: list[int]) -> None:
    first, second, third, last = groups
    server.mark(first, second, add_tags=["reward hack", "odd"])
    server.mark(third, add_tags=["good"])
    server.mark(second, note="odd")

    assert server.ids('tag:"reward hack"') == [second, first]
    assert server.ids('tag:"reward hack",good') == [third, second, first]
    assert server.ids("tag:odd tag:good") == []
    assert server.ids('tag:odd tag:"reward hack"') == [second, first]
    assert server.ids("tag~HACK") == [second, first]
    assert server.ids("tag~HACK tag:good") == []
    assert server.ids("-tag:odd") == [last, third]
    assert server.ids("tag:hack") == []
    assert server.ids("is:noted") == [second]
    assert server.ids("is:noted tag:odd") == [second]
    assert server.ids("is:noted tag:good") == []
    assert server.ids("is:noted tag:odd", sort="score") == [second]
    assert server.ids("tag:odd,good", sort="-score") == [third, second, first]
    assert server.ids("tag~o", sort="-score") == [third, second, first]
    assert server.ids("tag:odd nothing said") == []


def test_tags_are_completed_by_their_number_of_groups(server: Marking, groups: list[int]) -> None:
    server.mark(*groups[:2], add_tags=["reward hack", "good"])
    server.mark(groups[3], add_tags=["good"])

    def values(**query: str) -> Any:
        answer = server.vera.get("/api/v1/trajectories/filter/values", {"of": "tag", **query})
        return answer.json()

    counts = {row["value"]: row["count"] for row in values(run="demo")["results"]}
    assert counts == {"good": 3, "reward hack": 2}
    assert [row["value"] for row in values(run="demo", part="HACK")["results"]] == ["reward hack"]
    assert values(kind="fragment")["errors"][0]["field"] == "of"


def test_marked_groups_are_listed_a_page_at_a_time(server: Marking, groups: list[int]) -> None:
    server.mark(*groups, add_tags=["x"])

    first = server.get(q="tag:x", limit=3)
    second = server.get(q="tag:x", limit=3, cursor=first["next"])

    assert [int(row["id"]) for row in first["results"] + second["results"]] == groups[::-1]
    assert second["next"] is None
    beside = second["results"][0]["id"]
    assert server.ids("tag:x", limit=1, from_group=beside, backward=1) == [groups[1]]


def test_every_change_is_audited_once_with_the_previous_values(
    server: Marking, groups: list[int]
) -> None:
    server.mark(groups[0], add_tags=["odd"], reason="first look")
    server.mark(groups[0], add_tags=["odd"])
    server.mark(*groups[:2], add_tags=["good"], remove_tags=["odd"])

    entries = list(
        RunEvent.objects.filter(actor="user:alice").order_by("id").values_list("kind", "message")
    )
    assert entries == [
        ("groups_marked", f"+odd: group {groups[0]}"),
        ("groups_marked", "+good, -odd: 2 groups"),
    ]
    first, second = RunEvent.objects.filter(actor="user:alice").order_by("id")
    assert first.reason == "first look"
    assert second.details["before"] == {
        str(groups[0]): {"tags": ["odd"], "note": ""},
        str(groups[1]): {"tags": [], "note": ""},
    }


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"add_tags": [""]}, "add_tags[0]"),
        ({"add_tags": ["  "]}, "add_tags"),
        ({"add_tags": ["x" * 65]}, "add_tags[0]"),
        ({"add_tags": ["two\u202elines"]}, "add_tags"),
        ({"add_tags": ['"quoted"']}, "add_tags"),
        ({"add_tags": [str(number) for number in range(21)]}, "add_tags"),
        ({"add_tags": "x"}, "add_tags"),
        ({"remove_tags": ["x\x00y"]}, "remove_tags[0]"),
        ({"add_tags": ["x"], "remove_tags": ["x"]}, "remove_tags"),
        ({"note": "x" * 2001}, "note"),
        ({"note": 3}, "note"),
        ({}, "add_tags"),
        ({"add_tags": ["x"], "groups": []}, "groups"),
        ({"add_tags": ["x"], "groups": [1] * (MOST_AT_ONCE + 1)}, "groups"),
        ({"label": 1}, "label"),
    ],
)
def test_invalid_marks_are_refused_with_their_field(
    server: Marking, groups: list[int], content: dict[str, Any], field: str
) -> None:
    answer = server.send({"groups": groups[:1]} | content)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
    assert not GroupMark.objects.exists()


def test_a_group_has_at_most_20_tags(server: Marking, groups: list[int]) -> None:
    server.mark(groups[0], add_tags=[f"tag {number}" for number in range(20)])

    answer = server.send({"groups": groups[:2], "add_tags": ["one more"]})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "add_tags")
    assert "21 tags" in answer.json()["errors"][0]["message"]
    assert server.marks()[groups[1]] is None
    server.mark(groups[0], add_tags=["one more"], remove_tags=["tag 0"])


@pytest.mark.parametrize("query", [{"label": "0"}, {"mark": "pinned"}, {"prompt": "x"}])
def test_an_invalid_filter_is_refused_with_its_field(
    server: Marking, query: dict[str, str]
) -> None:
    assert server.refused(**query) == (400, next(iter(query)))


def test_groups_of_another_run_cannot_be_marked(server: Marking, groups: list[int]) -> None:
    assert server.send({"groups": [groups[0], 999_999], "add_tags": ["x"]}).status_code == 404
    assert not GroupMark.objects.exists()


def test_a_viewer_cannot_change_marks(server: Marking, groups: list[int]) -> None:
    server.mark(groups[0], add_tags=["x"])

    refused = server.send({"groups": groups, "add_tags": ["y"]}, client=server.vera)
    assert refused.status_code == 403
    assert server.marks()[groups[0]]["tags"] == ["x"]


def test_concurrent_changes_of_two_people_are_both_stored(
    server: Marking, groups: list[int]
) -> None:
    def change(changes: dict[str, Any]) -> None:
        mark_groups(
            run_id=server.run.pk,
            group_ids=groups,
            change=MarkChange.checked(**{"note": None} | changes),
            actor="user:x",
            now=NOON,
        )
        connection.close()

    with ThreadPoolExecutor(max_workers=2) as people:
        list(people.map(change, [{"add_tags": ["x"]}, {"note": "both"}]))

    assert list(GroupMark.objects.values_list("tags", "note")) == [(["x"], "both")] * 4


def exported(server: Marking, form: str, q: str) -> bytes:
    answer = server.http.get(
        "/api/v1/runs/demo/groups/export",
        {"q": q, "form": form},
        headers={"Authorization": server.token},
    )
    return b"".join(answer)


def test_exports_of_a_tag_contain_the_marks_of_its_groups(
    server: Marking, groups: list[int]
) -> None:
    server.mark(groups[1], groups[2], add_tags=["reward hack", "odd"])
    server.mark(groups[1], note="the best")

    lines = [json.loads(line) for line in exported(server, "jsonl", "tag:odd").splitlines()]
    table = pq.read_table(io.BytesIO(exported(server, "parquet", "tag:odd"))).to_pylist()
    every = pq.read_table(io.BytesIO(exported(server, "parquet", ""))).to_pylist()
    log = json.loads(exported(server, "inspect", "tag:odd"))["samples"]

    for rows in (lines, table):
        assert [row["id"] for row in rows] == [groups[2], groups[1]]
        assert [row["tags"] for row in rows] == [["odd", "reward hack"]] * 2
        assert [row["note"] for row in rows] == ["", "the best"]
    assert every[0]["tags"] == []
    later, earlier = [log[place]["metadata"] for place in (0, -1)]
    assert (earlier["tags"], earlier["note"]) == (["odd", "reward hack"], "the best")
    assert "note" not in later
    assert lines[1]["group"]["scores"] == [1.0, 1.0]


def test_marks_survive_a_reset_of_the_run(server: Marking, groups: list[int]) -> None:
    server.mark(groups[0], add_tags=["x"])

    server.send({"reason": "anew"}, path="/reset")

    assert GroupMark.objects.get(run=server.run).tags == ["x"]


def test_reads_change_no_state(server: Marking, groups: list[int]) -> None:
    before = RunEvent.objects.count()

    server.get(q="tag:x")
    server.get(q="is:noted")

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
