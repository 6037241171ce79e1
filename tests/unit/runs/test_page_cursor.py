from datetime import UTC, datetime
from math import inf, nan
from typing import Any
from uuid import UUID

import pytest

from web.rules.pages import InvalidPageCursor, PageRequest, decode, encode

AT = datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "position"),
    [
        (int, 2**62),
        (str, "loss/é\x00"),
        (tuple[datetime, int], (AT, 7)),
        (tuple[float, int], (1 / 3, 7)),
        (tuple[float, int], (-inf, 7)),
        (tuple[float | None, int], (None, 7)),
        (tuple[int, int, UUID], (3, 1, UUID(int=9))),
    ],
)
def test_a_position_survives_its_cursor_exactly(kind: Any, position: Any) -> None:
    assert decode(encode(position, key=b"list"), kind, key=b"list") == position


def test_a_nan_score_survives_its_cursor() -> None:
    value, row = decode(encode((nan, 7), key=b""), tuple[float, int], key=b"")

    assert (value != value, row) == (True, 7)


@pytest.mark.parametrize("cursor", ["x", "é", "!!", "AAAA", "A" * 40, encode(7, key=b"list") + "A"])
def test_other_text_is_not_a_cursor(cursor: str) -> None:
    with pytest.raises(InvalidPageCursor):
        decode(cursor, int, key=b"list")


def test_a_cursor_is_refused_by_another_list() -> None:
    with pytest.raises(InvalidPageCursor, match="with these filters"):
        decode(encode(7, key=b"list"), int, key=b"another list")


def test_a_cursor_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidPageCursor):
        decode(encode("seven", key=b"list"), int, key=b"list")


@pytest.mark.parametrize(
    ("rows", "shown", "has_next"),
    [([], [], False), ([1, 2], [1, 2], False), ([1, 2, 3], [1, 2], True)],
)
def test_an_extra_row_indicates_a_next_page(
    rows: list[int], shown: list[int], has_next: bool
) -> None:
    page: PageRequest[int] = PageRequest(limit=2)

    results, cursor = page.cut(rows, lambda row: row)

    assert (results, cursor is not None) == (shown, has_next)
    if cursor is not None:
        assert decode(cursor, int, key=b"") == 2
