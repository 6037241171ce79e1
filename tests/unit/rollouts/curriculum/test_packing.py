"""A performance is stored in a database row without loss."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.curriculum.rules.packing import pack, unpack
from rollouts.lessons.rules.performance import Outcome, Performance

REWARDS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40)


@given(st.lists(st.tuples(st.integers(0, 2**31), REWARDS), max_size=8))
def test_what_was_packed_is_unpacked_unchanged(batches: list[tuple[int, list[float]]]) -> None:
    performance = Performance()
    for step, rewards in batches:
        successes = sum(reward > 0 for reward in rewards)
        performance = performance.add(
            Outcome(step=step, rewards=tuple(rewards), successes=successes)
        )

    assert unpack(pack(performance)) == performance


def test_nothing_is_no_performance_at_all() -> None:
    assert unpack(b"") == Performance()


def test_a_row_stays_small_however_long_a_lesson_goes_on() -> None:
    performance = Performance()
    for step in range(2_000):
        performance = performance.add(Outcome(step=step, rewards=(0.5,) * 64, successes=32))

    assert len(pack(performance)) < 15_000
