"""Credits are spent in whole groups, and their total is preserved."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.groups.credits import Credits

STEPS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6), st.floats(0, 1)), max_size=30)


@given(st.integers(1, 9), STEPS)
def test_what_was_granted_is_unspent_spent_or_handed_over(
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
