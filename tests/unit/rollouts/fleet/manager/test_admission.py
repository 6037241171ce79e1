"""Credits never exceed the free space, and are distributed fairly."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.manager.admission import AHEAD_SECONDS, Pace, demand, room, share_out


def test_granted_and_recently_accepted_items_reduce_the_room() -> None:
    assert room(admission_remaining=32, accepted_since=3, outstanding=9) == 20


def test_the_room_is_never_negative() -> None:
    assert room(admission_remaining=4, accepted_since=3, outstanding=9) == 0


def test_equal_workers_get_equal_shares() -> None:
    assert share_out(8, [8, 8]) == [4, 4]


def test_unused_shares_are_given_to_other_workers() -> None:
    assert share_out(10, [1, 8, 8]) == [1, 5, 4]


def test_a_single_credit_goes_to_the_first_worker_that_needs_it() -> None:
    assert share_out(1, [0, 5, 5]) == [0, 1, 0]


@given(st.integers(0, 200), st.lists(st.integers(0, 40), max_size=12))
def test_credits_are_conserved_and_within_the_requests(free: int, requested: list[int]) -> None:
    shares = share_out(free, requested)

    assert sum(shares) == min(free, sum(requested))
    assert all(0 <= share <= want for share, want in zip(shares, requested, strict=True))


def test_a_worker_gets_credits_for_two_of_each_item() -> None:
    assert demand(at_once=8, unspent=5, per_second=0.0) == 11
    assert demand(at_once=8, unspent=20, per_second=0.0) == 0


def test_the_credits_of_a_fast_worker_last_until_the_next_request() -> None:
    assert demand(at_once=8, unspent=10, per_second=100.0) == 100.0 * AHEAD_SECONDS - 10


def test_the_pace_of_a_worker_is_that_of_a_whole_second() -> None:
    pace = Pace()

    for tenth in range(11):
        # Synchronized environments: 64 items at once, every third of a second.
        pace.note(64 * (tenth // 3), now=5.0 + tenth / 10)

    assert pace.per_second == 64 * 3


def test_the_pace_of_a_new_incarnation_is_reset() -> None:
    pace = Pace()
    pace.note(0, now=0.0)
    pace.note(500, now=1.0)

    pace.note(2, now=2.0)

    assert pace.per_second == 0.0
