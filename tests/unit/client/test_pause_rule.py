"""Producers pause above one threshold and resume at a lower one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolldeck.pacing import HandlerState, PauseRule

RUNNING, PAUSED = HandlerState.RUNNING, HandlerState.PAUSED
RULE = PauseRule(batch_size=16, off_policy_tolerance=3, resume_fraction=0.75)


@pytest.mark.parametrize(
    ("state", "queued", "after"),
    [
        (RUNNING, 0, RUNNING),
        (RUNNING, 48, RUNNING),
        (RUNNING, 49, PAUSED),
        (PAUSED, 48, PAUSED),
        (PAUSED, 37, PAUSED),
        (PAUSED, 36, RUNNING),
        (PAUSED, 0, RUNNING),
    ],
)
def test_the_marks_are_where_the_protocol_puts_them(
    state: HandlerState, queued: int, after: HandlerState
) -> None:
    assert RULE.state_after(state, queued=queued) is after


def test_a_queue_around_the_upper_mark_does_not_flap() -> None:
    state, changes = RUNNING, 0
    for queued in [47, 49, 47, 49, 48, 49, 40, 49, 47] * 10:
        following = RULE.state_after(state, queued=queued)
        changes += following is not state
        state = following

    assert changes == 1


def test_with_equal_marks_the_rule_is_that_of_the_protocol() -> None:
    rule = PauseRule(batch_size=16, off_policy_tolerance=3, resume_fraction=1)

    assert rule.state_after(PAUSED, queued=48) is RUNNING
    assert rule.state_after(RUNNING, queued=49) is PAUSED


@given(
    batch_size=st.integers(1, 10_000),
    tolerance=st.floats(0.01, 100),
    fraction=st.floats(0, 1),
    state=st.sampled_from(HandlerState),
    queued=st.floats(0, 1e9),
)
def test_it_never_runs_over_the_mark_nor_pauses_on_an_empty_queue(
    batch_size: int, tolerance: float, fraction: float, state: HandlerState, queued: float
) -> None:
    rule = PauseRule(
        batch_size=batch_size, off_policy_tolerance=tolerance, resume_fraction=fraction
    )

    assert rule.state_after(state, queued=0) is RUNNING
    if queued > rule.pause_above:
        assert rule.state_after(state, queued=queued) is PAUSED


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batch_size": 1, "off_policy_tolerance": 0},
        {"batch_size": 1, "off_policy_tolerance": float("nan")},
        {"batch_size": 1, "resume_fraction": 1.1},
    ],
)
def test_invalid_marks_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        PauseRule(**wrong)  # type: ignore[arg-type]
