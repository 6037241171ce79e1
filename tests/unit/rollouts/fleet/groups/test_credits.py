"""Credits are spent in whole groups, and their total is preserved."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.groups.task_loop import Credits

STEPS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6), st.floats(0, 1)), max_size=30)


@given(st.integers(1, 9), STEPS)
def test_granted_credits_are_unspent_spent_or_transferred(
    group_size: int, steps: list[tuple[int, int, float]]
) -> None:
    room, granted, handed_over = Credits(), 0, 0
    for more, requested, share in steps:
        room.grant(more)
        granted += more
        groups = room.reserve(groups=requested, group_size=group_size)
        assert groups <= requested
        assert groups == requested or room.unspent < group_size
        sent = int(groups * share) * group_size
        assert sum(room.held()) == granted - handed_over
        room.settle(sequences=groups * group_size, handed_over=sent)
        handed_over += sent

        assert room.held() == (granted - handed_over, 0)


def test_one_group_may_exceed_a_remainder_while_nothing_is_sampled() -> None:
    room = Credits()
    room.grant(12)

    assert room.reserve(groups=2, group_size=8, may_exceed=True) == 1
    # A group is being sampled, whose credits may come back.
    assert room.reserve(groups=1, group_size=8, may_exceed=True) == 0
    room.settle(sequences=8, handed_over=8)
    assert room.reserve(groups=1, group_size=8) == 0
    assert room.reserve(groups=5, group_size=8, may_exceed=True) == 1
    assert room.held() == (-4, 8)
    room.settle(sequences=8, handed_over=8)
    assert room.reserve(groups=1, group_size=1, may_exceed=True) == 0
    room.grant(12)
    assert room.held() == (8, 0)
