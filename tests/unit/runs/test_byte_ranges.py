import pytest

from web.http.byte_ranges import UnreadableRange, byte_range


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("", None),
        ("bytes=0-3", (0, 3)),
        ("bytes=4-", (4, 9)),
        ("bytes=-3", (7, 9)),
        ("bytes=-30", (0, 9)),
        ("bytes=8-30", (8, 9)),
        ("bytes=3-1", None),
        ("bytes=0-1,4-5", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("items=0-1", None),
    ],
)
def test_a_range_of_ten_bytes(header: str, span: tuple[int, int] | None) -> None:
    assert byte_range(header, size=10) == span


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_an_empty_range_is_refused_by_name(header: str) -> None:
    with pytest.raises(UnreadableRange, match="none of the file's 10 bytes"):
        byte_range(header, size=10)
