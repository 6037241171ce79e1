"""The gates that pause producers report the inequalities that they evaluate."""

from hypothesis import given
from hypothesis import strategies as st

from buffer.batches.rules.pacing import staleness_gate, tolerance_gate
from rolldeck.pacing import PauseRule
from runs.lifecycle.rules import admission_capacity

RULE = PauseRule(batch_size=256, off_policy_tolerance=3)


def test_a_queue_over_its_tolerance_is_reported_with_its_numbers() -> None:
    gate = tolerance_gate(RULE, queued=913, over=True)

    assert gate.condition == "queued 913 > tolerance × batch = 3 × 256 = 768"
    assert (gate.closed, gate.reopens_after) == (True, 913 - 384)


def test_between_the_marks_the_status_has_the_resume_mark() -> None:
    gate = tolerance_gate(RULE, queued=500, over=True)

    assert gate.condition.endswith("500 < tolerance × batch = 3 × 256 = 768; resumes at 384")
    assert (gate.closed, gate.reopens_after) == (True, 116)


def test_an_open_gate_waits_for_nothing() -> None:
    gate = tolerance_gate(RULE, queued=500, over=False)

    assert (gate.closed, gate.reopens_after) == (False, 0)


@given(
    admitted=st.integers(0, 10_000),
    trained=st.integers(0, 50),
    batches_ahead=st.integers(1, 8),
    batch_size=st.integers(1, 300),
)
def test_the_gate_of_staleness_is_closed_exactly_when_nothing_is_admitted(
    admitted: int, trained: int, batches_ahead: int, batch_size: int
) -> None:
    def room(steps: float) -> int:
        return admission_capacity(
            batches_ahead=batches_ahead,
            trained=int(steps),
            per_batch=batch_size,
            accepted=admitted,
            running=0,
        )

    gate = staleness_gate(
        admitted=admitted, trained=trained, batches_ahead=batches_ahead, batch_size=batch_size
    )

    assert gate.closed is (room(trained) == 0)
    if gate.closed:
        steps = gate.reopens_after / batch_size
        assert room(trained + steps) > 0
        assert room(trained + steps - 1) == 0
