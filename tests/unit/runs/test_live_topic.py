import json

from msgspec import Struct

from web.live.parts import WINDOW_ROWS, Topic


class Numbered(Struct, frozen=True):
    id: int


def rows(*ids: int) -> list[Numbered]:
    return [Numbered(id=row_id) for row_id in ids]


def ids(encoded: list[bytes]) -> list[int]:
    return [json.loads(row)["id"] for row in encoded]


def test_only_parts_that_changed_are_new() -> None:
    topic = Topic()

    assert set(topic.changed_parts({"run": {"a": 1}, "queue": {"n": 0}})) == {"run", "queue"}
    assert topic.changed_parts({"run": {"a": 1}, "queue": {"n": 1}}) == {"queue": b'{"n":1}'}
    assert topic.changed_parts({"run": {"a": 1}}) == {}


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
