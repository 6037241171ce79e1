"""Credits never exceed the room, and are shared fairly."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.admission import room, share_out


def test_what_is_out_and_what_was_just_accepted_takes_room() -> None:
    assert room(admission_remaining=32, accepted_since=3, outstanding=9) == 20


def test_there_is_never_less_than_no_room() -> None:
    assert room(admission_remaining=4, accepted_since=3, outstanding=9) == 0


def test_equal_workers_get_equal_shares() -> None:
    assert share_out(8, [8, 8]) == [4, 4]


def test_what_a_modest_worker_leaves_goes_to_the_others() -> None:
    assert share_out(10, [1, 8, 8]) == [1, 5, 4]


def test_a_single_credit_goes_to_the_first_that_wants_it() -> None:
    assert share_out(1, [0, 5, 5]) == [0, 1, 0]


@given(st.integers(0, 200), st.lists(st.integers(0, 40), max_size=12))
def test_no_credit_is_made_up_lost_or_forced_on_anyone(free: int, wanted: list[int]) -> None:
    shares = share_out(free, wanted)

    assert sum(shares) == min(free, sum(wanted))
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
