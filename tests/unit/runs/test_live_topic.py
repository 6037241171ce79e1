import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from web.live.parts import WINDOW_ROWS, ChangedPart, Topic


class Numbered(Struct, frozen=True):
    id: int


def rows(*ids: int) -> list[Numbered]:
    return [Numbered(id=row_id) for row_id in ids]


def ids(encoded: list[bytes]) -> list[int]:
    return [json.loads(row)["id"] for row in encoded]


def test_only_parts_that_changed_are_new() -> None:
    topic = Topic()

    assert set(topic.changed_parts({"run": {"a": 1}, "queue": {"n": 0}})) == {"run", "queue"}
    changed = topic.changed_parts({"run": {"a": 1}, "queue": {"n": 1}})
    assert changed == {"queue": ChangedPart(b'{"n":1}', None)}
    assert topic.changed_parts({"run": {"a": 1}}) == {}


WORKERS = [{"index": place, "host": "node-" * 20, "steps": 0} for place in range(3)]

PROTO = {"index": 2, "__proto__": 1}


def fields(before: Any, after: Any) -> Any:
    """Return the changed fields of a part, or None if it is sent whole."""
    topic = Topic()
    topic.changed_parts({"fleet": before})
    changes = topic.changed_parts({"fleet": after})["fleet"].changes
    return (
        None if changes is None else [[path, json.loads(bytes(value))] for path, value in changes]
    )


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        ([*WORKERS[:2], WORKERS[2] | {"steps": 7}], [[["workers", 2, "steps"], 7]]),
        ([*WORKERS[:2], WORKERS[2] | {"steps": None}], [[["workers", 2, "steps"], None]]),
        ([*WORKERS[:2], WORKERS[2] | {"new": [1]}], [[["workers", 2, "new"], [1]]]),
        (WORKERS[:2], None),
        ([one | {"host": "other-" * 20} for one in WORKERS], None),
        ([*WORKERS[:2], PROTO], [[["workers", 2], PROTO]]),
    ],
    ids=["value", "null", "new key", "shorter list", "mostly new", "a key of JavaScript"],
)
def test_a_part_of_which_little_changed_has_its_changed_fields(after: Any, changes: Any) -> None:
    assert fields({"workers": WORKERS}, {"workers": after}) == changes


JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner),
)


@given(before=JSON, after=JSON, padding=st.just("x" * 500))
def test_changed_fields_make_the_new_part(before: Any, after: Any, padding: str) -> None:
    whole = {"padding": padding, "inner": after}
    part: Any = {"padding": padding, "inner": before}

    for (*path, last), value in fields(part, whole) or [] if before != after else []:
        inner = part
        for key in path:
            inner = inner[key]
        inner[last] = value

    assert part == whole


def test_rows_are_new_once() -> None:
    topic = Topic()

    assert ids(topic.new_rows("events", rows(1, 2))) == [1, 2]
    assert ids(topic.new_rows("events", rows(1, 2, 3))) == [3]
    assert ids(topic.window()["events"]) == [1, 2, 3]


def test_a_row_that_was_committed_late_is_inserted_in_order() -> None:
    topic = Topic()
    topic.new_rows("events", rows(100, 102))

    assert topic.after("events") == 102 - 64
    assert ids(topic.new_rows("events", rows(100, 101, 102))) == [101]
    assert ids(topic.window()["events"]) == [100, 101, 102]


def test_a_first_read_requests_the_newest_rows_and_an_empty_series_all_rows() -> None:
    topic = Topic()

    assert topic.after("events") is None
    topic.new_rows("events", [])
    assert topic.after("events") == 0


def test_the_window_keeps_the_newest_rows_and_removes_old_ids() -> None:
    topic = Topic()
    for row_id in range(1, 6 * WINDOW_ROWS):
        after = topic.after("events") or 0
        topic.new_rows("events", rows(*range(after + 1, row_id + 1)))

    window = ids(topic.window()["events"])
    assert window == list(range(5 * WINDOW_ROWS, 6 * WINDOW_ROWS))
    assert topic.new_rows("events", rows(*window[-60:])) == []
