"""Slots leave a queue in first-in, first-out order."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.steps.slots import SlotQueue

SLOTS = 6
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.permutations(range(SLOTS)), st.integers(0, SLOTS)),
        st.tuples(st.just("take"), st.none(), st.integers(0, SLOTS)),
        st.tuples(st.just("discard"), st.none(), st.integers(0, SLOTS - 1)),
    )
)


@given(acts=ACTS)
def test_a_queue_is_first_in_first_out_for_any_batch_size(acts: list) -> None:  # type: ignore[type-arg]
    queue, plain = SlotQueue(), deque[tuple[float, int]]()
    for now, (act, slots, number) in enumerate(acts):
        if act == "add":
            absent = [slot for slot in slots[:number] if slot not in {entry for _, entry in plain}]
            queue.add(np.array(absent, dtype=np.intp), float(now))
            plain.extend((float(now), slot) for slot in absent)
        elif act == "take":
            expected = [plain.popleft()[1] for _ in range(min(number, len(plain)))]
            assert queue.pop(number).tolist() == expected
        else:
            queue.discard(number)
            plain = deque(entry for entry in plain if entry[1] != number)
        assert len(queue) == len(plain)
        if plain:
            assert queue.oldest_at == plain[0][0]


def test_slots_queued_together_are_returned_together() -> None:
    queue = SlotQueue()
    slots = np.array([2, 0, 1])
    queue.add(slots, 0.0)

    assert queue.pop(8) is slots


def test_an_empty_queue_has_no_oldest_slot() -> None:
    queue = SlotQueue()
    queue.add(np.array([3]), 1.0)
    queue.discard(3)

    with pytest.raises(IndexError):
        _ = queue.oldest_at
    assert queue.pop(1).tolist() == []
