"""Weight sync progress is derived from two reports of a worker."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.control.rules import NONE_STEP, Steps, advances

NONE = Steps(NONE_STEP, NONE_STEP, NONE_STEP)


def test_each_stage_is_reached_once() -> None:
    assert advances(NONE, Steps(0, -2, -2)) == [(0, "announced")]
    assert advances(Steps(0, -2, -2), Steps(0, 0, -2)) == [(0, "staged")]
    assert advances(Steps(0, 0, -2), Steps(1, 0, 0)) == [(1, "announced"), (0, "active")]


def test_a_report_without_versions_has_no_changes() -> None:
    assert advances(Steps(3, 3, 3), NONE) == []


@given(steps=st.tuples(*[st.integers(-2, 9)] * 3))
def test_nothing_is_reached_twice(steps: tuple[int, int, int]) -> None:
    assert advances(Steps(*steps), Steps(*steps)) == []
