from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from buffer.payloads.rules import (
    GRACE,
    RetentionLimits,
    SegmentInfo,
    due,
    is_full,
    is_settled,
    is_worth_moving,
)
from tests.factories import NOON

NO_LIMITS = RetentionLimits(seconds=None, size_bytes=None, items=None)
HOUR = timedelta(hours=1)


def stretch(
    number: int, *, items: int = 1, size_bytes: int = 10, sealed: timedelta | None = HOUR
) -> SegmentInfo:
    """Return a segment that was sealed so long before noon, or is open."""
    return SegmentInfo(
        number=number,
        opened_at=NOON - 2 * HOUR,
        sealed_at=None if sealed is None else NOON - sealed,
        items=items,
        size_bytes=size_bytes,
    )


def limits(**changed: int) -> RetentionLimits:
    return RetentionLimits(**{"seconds": None, "size_bytes": None, "items": None, **changed})


def test_a_segment_is_full_by_age_or_size_and_never_when_empty() -> None:
    open_ = stretch(1, sealed=None)

    assert not is_full(open_, now=NOON, seconds=7201, size_bytes=11)
    assert is_full(open_, now=NOON, seconds=7200, size_bytes=11)
    assert is_full(open_, now=NOON, seconds=7201, size_bytes=10)
    assert not is_full(
        stretch(1, items=0, size_bytes=0, sealed=None), now=NOON, seconds=1, size_bytes=1
    )


def test_without_limits_all_segments_are_kept() -> None:
    assert due([stretch(n) for n in range(9)], now=NOON, limits=NO_LIMITS) == []


def test_the_oldest_segments_are_dropped_until_the_rest_fits() -> None:
    segments = [stretch(4, sealed=None), *(stretch(n) for n in (3, 1, 2))]

    assert due(segments, now=NOON, limits=limits(size_bytes=20)) == [1, 2]
    assert due(segments, now=NOON, limits=limits(items=3)) == [1]
    assert due(segments, now=NOON, limits=limits(size_bytes=40, items=4)) == []


def test_age_counts_from_the_seal() -> None:
    segments = [stretch(1, sealed=2 * HOUR), stretch(2)]

    assert due(segments, now=NOON, limits=limits(seconds=3601)) == [1]
    assert due(segments, now=NOON, limits=limits(seconds=3600)) == [1, 2]


def test_writable_segments_are_never_due() -> None:
    fresh = stretch(1, sealed=GRACE - timedelta(seconds=1))

    assert not is_settled(fresh, now=NOON)
    assert due([fresh, stretch(2, sealed=None)], now=NOON, limits=limits(size_bytes=1)) == []


def test_copying_more_than_half_of_a_segment_is_not_worth_it() -> None:
    assert is_worth_moving(open_bytes=5, size_bytes=10)
    assert not is_worth_moving(open_bytes=6, size_bytes=10)


segments_of_any_size = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 300)), max_size=12
)


@given(segments_of_any_size, st.integers(0, 400), st.integers(0, 40), st.integers(0, 200))
def test_kept_segments_fit_or_cannot_be_dropped_yet(
    sizes: list[tuple[int, int, int]], size_limit: int, item_limit: int, minutes: int
) -> None:
    ages = sorted((age for _, _, age in sizes), reverse=True)
    segments = [
        stretch(n, items=items, size_bytes=size, sealed=timedelta(minutes=age))
        for n, ((items, size, _), age) in enumerate(zip(sizes, ages, strict=True))
    ]
    retention = limits(seconds=minutes * 60, size_bytes=size_limit, items=item_limit)

    dropped = due(segments, now=NOON, limits=retention)

    assert dropped == list(range(len(dropped)))
    left = segments[len(dropped) :]
    fits = (
        sum(s.size_bytes for s in left) <= size_limit
        and sum(s.items for s in left) <= item_limit
        and (not left or NOON - left[0].sealed_at < timedelta(minutes=minutes))
    )
    assert fits or not is_settled(left[0], now=NOON)
    if dropped:  # the last one had to go
        retained = segments[len(dropped) - 1 :]
        assert (
            sum(s.size_bytes for s in retained) > size_limit
            or sum(s.items for s in retained) > item_limit
            or NOON - retained[0].sealed_at >= timedelta(minutes=minutes)
        )
