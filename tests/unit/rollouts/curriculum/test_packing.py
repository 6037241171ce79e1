"""A performance is stored in a database row without loss."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.curriculum.rules import pack, unpack
from rollouts.lessons.rules.lessons import Outcome, Performance

REWARDS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40)


@given(st.lists(st.tuples(st.integers(0, 2**31), REWARDS), max_size=8))
def test_packed_values_are_unpacked_unchanged(batches: list[tuple[int, list[float]]]) -> None:
    performance = Performance()
    for step, rewards in batches:
        successes = sum(reward > 0 for reward in rewards)
        performance = performance.add(
            Outcome(step=step, rewards=tuple(rewards), successes=successes)
        )

    assert unpack(pack(performance)) == performance


def test_an_empty_row_has_no_performance() -> None:
    assert unpack(b"") == Performance()


def test_the_size_of_a_row_does_not_grow_with_a_lesson() -> None:
    performance = Performance()
    for step in range(2_000):
        performance = performance.add(Outcome(step=step, rewards=(0.5,) * 64, successes=32))

    assert len(pack(performance)) < 15_000
