"""Versions of arriving items, and items that wait for others."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.ingest.rules.arrivals import (
    MOST_WAITING,
    WaitingFragment,
    WaitingGroups,
    complete,
    cut,
    drop_reason,
    version_of,
)
from buffer.items.rules.exact_fill import exact_fill
from buffer.items.rules.states import DropReason
from runs.config.rules.sections import admission_shortage
from runs.lifecycle.rules import PolicyVersion, admission_capacity

sizes = st.lists(st.integers(1, 9), max_size=7)


def can_sum(values: list[int], target: int) -> bool:
    return any(
        sum(chosen) == target
        for length in range(len(values) + 1)
        for chosen in combinations(values, length)
    )


# The reference tries every subset, which takes a busy machine its time.
@given(window=sizes, behind=sizes, target=st.integers(1, 24))
def test_a_fill_exists_exactly_when_some_choice_sums_to_the_batch(
    window: list[int], behind: list[int], target: int
) -> None:
    fill = exact_fill(window, behind=Counter(behind), target=target)

    assert (fill is not None) == can_sum(window + behind, target)
    if fill is not None:
        assert len(set(fill.chosen)) == len(fill.chosen)
        assert all(fill.behind[size] <= Counter(behind)[size] for size in fill.behind)
        total = sum(window[place] for place in fill.chosen)
        assert total + sum(size * count for size, count in fill.behind.items()) == target


# The reference tries every subset, which takes a busy machine its time.
@given(window=sizes, target=st.integers(1, 24))
def test_a_group_is_skipped_only_when_it_cannot_be_part_of_the_fill(
    window: list[int], target: int
) -> None:
    fill = exact_fill(window, behind={}, target=target)

    if fill is None:
        return
    for passed in set(range(len(window))) - set(fill.chosen):
        selected = [place for place in fill.chosen if place < passed]
        rest = target - sum(window[place] for place in selected) - window[passed]
        assert not can_sum(window[passed + 1 :], rest) or rest < 0


def test_the_oldest_prefix_is_taken_when_it_sums_exactly() -> None:
    fill = exact_fill([2, 2, 1, 3], behind={4: 10}, target=4)

    assert fill is not None
    assert fill.chosen == [0, 1]


def test_one_odd_group_does_not_block_even_numbers() -> None:
    fill = exact_fill([3, 2, 2], behind={}, target=4)

    assert fill is not None
    assert fill.chosen == [1, 2]


def test_groups_behind_the_window_complete_a_fill() -> None:
    fill = exact_fill([3], behind={1: 5, 7: 2}, target=8)

    assert fill is not None
    assert fill.chosen == [0]
    assert fill.behind == {1: 5}


# The reference tries every subset, which takes a busy machine its time.
@given(arrivals=st.lists(st.integers(1, 7), max_size=10), group_size=st.integers(1, 8))
def test_released_groups_always_sum_to_the_group_size_and_none_is_lost(
    arrivals: list[int], group_size: int
) -> None:
    waiting = WaitingGroups(group_size=group_size)
    released: list[int] = []

    for key, sequences in enumerate(arrivals):
        if sequences >= group_size:
            released.append(key)
            continue
        done = waiting.add(key, sequences)
        assert not done or sum(arrivals[slot] for slot in done) == group_size
        released += done
        assert not can_sum([size for _, size in waiting.waiting], group_size)

    held = [key for key, _ in waiting.waiting]
    assert sorted(released + held) == list(range(len(arrivals)))


def test_older_groups_are_preferred_to_any_other_choice() -> None:
    assert complete([1, 2, 3], group_size=3) == [0, 1]
    assert complete([2, 2, 3], group_size=3) == [2]
    assert complete([2, 2], group_size=3) == []


def test_sizes_that_never_sum_do_not_block() -> None:
    waiting = WaitingGroups(group_size=4)

    released = [waiting.add(key, 3) for key in range(MOST_WAITING + 3)]

    assert released == [[]] * MOST_WAITING + [[0], [1], [2]]
    assert waiting.sequences == 3 * MOST_WAITING
    assert waiting.add(-1, 1) == [3, -1]


CURRENT = PolicyVersion(2, 5)
UNPUBLISHED = PolicyVersion(0, 7)


@pytest.mark.parametrize(
    ("epoch", "step", "current", "version"),
    [
        (None, None, CURRENT, CURRENT),
        (1, None, CURRENT, CURRENT),
        (None, 3, CURRENT, PolicyVersion(2, 3)),
        (1, 3, CURRENT, PolicyVersion(1, 3)),
        (None, 3, UNPUBLISHED, PolicyVersion(0, 3)),
        (2, 3, UNPUBLISHED, PolicyVersion(0, 3)),
        (4, 3, UNPUBLISHED, PolicyVersion(0, 3)),
        (1, 3, UNPUBLISHED, PolicyVersion(1, 3)),
    ],
    ids=[
        "no version: the current one",
        "an epoch without a step: the current one",
        "a step: of the current epoch",
        "an earlier epoch",
        "before weights a step counts batches",
        "before weights, of this epoch",
        "before weights, of a later epoch",
        "before weights, of an earlier trainer session",
    ],
)
def test_the_version_of_a_group_by_its_claim(
    epoch: int | None, step: int | None, current: PolicyVersion, version: PolicyVersion
) -> None:
    found = version_of(claimed_epoch=epoch, claimed_step=step, current=current, epoch=2)
    assert found == version


@pytest.mark.parametrize(
    ("sampled", "limit", "reason"),
    [
        (PolicyVersion(2, 5), 0, None),
        (PolicyVersion(2, 4), 1, None),
        (PolicyVersion(2, 3), 1, DropReason.STALE_VERSION),
        (PolicyVersion(2, 0), None, None),
        (PolicyVersion(2, 6), None, DropReason.FUTURE),
        (PolicyVersion(3, 0), None, DropReason.FUTURE),
        (PolicyVersion(1, 9), None, DropReason.STALE_EPOCH),
    ],
)
def test_groups_of_unusable_versions_are_dropped_with_a_reason(
    sampled: PolicyVersion, limit: int | None, reason: DropReason | None
) -> None:
    assert drop_reason(sampled, sampled, current=CURRENT, epoch=2, max_staleness=limit) is reason


def test_before_weights_only_groups_of_earlier_epochs_are_stale() -> None:
    def reason(sampled: PolicyVersion) -> DropReason | None:
        return drop_reason(sampled, sampled, current=UNPUBLISHED, epoch=2, max_staleness=None)

    assert reason(PolicyVersion(1, 0)) is DropReason.STALE_EPOCH
    assert reason(PolicyVersion(0, 7)) is None


def waiting(
    *numbers: int, breaks: frozenset[int] | set[int] = frozenset()
) -> list[WaitingFragment]:
    """Return fragments whose ids are their numbers; those in `breaks` follow nothing."""
    return [WaitingFragment(number, number, number not in breaks) for number in numbers]


def test_a_chunk_is_cut_as_soon_as_it_is_complete() -> None:
    assert cut(waiting(0, breaks={0}), length=2) == ([], [])
    assert cut(waiting(0, 1, breaks={0}), length=2) == ([[0, 1]], [])
    assert cut(waiting(0, 1, 2, breaks={0}), length=2) == ([[0, 1]], [])


def test_every_fragment_alone_is_a_chunk_of_one() -> None:
    assert cut(waiting(4, 6, 7, breaks={6}), length=1) == ([[4], [6], [7]], [])


def test_fragments_that_arrive_out_of_order_are_sorted() -> None:
    assert cut(waiting(3, 1, 2), length=3) == ([[1, 2, 3]], [])


def test_fragments_before_a_break_never_complete_a_chunk() -> None:
    assert cut(waiting(0, 1, 2, breaks={0, 2}), length=3) == ([], [0, 1])


def test_fragments_before_a_gap_wait_for_the_missing_one() -> None:
    assert cut(waiting(0, 2, 3), length=2) == ([[2, 3]], [])


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)), st.integers(1, 4))
def test_every_fragment_has_one_state_and_every_chunk_is_consecutive(
    numbers: set[int], breaks: set[int], length: int
) -> None:
    fragments = waiting(*numbers, breaks=breaks)

    chunks = cut(fragments, length=length)

    placed = [item for chunk in chunks.chunks for item in chunk] + chunks.broken
    assert len(placed) == len(set(placed))
    assert set(placed) <= numbers
    for chunk in chunks.chunks:
        assert chunk == list(range(chunk[0], chunk[0] + length))
        assert not breaks & set(chunk[1:])
    # Nothing more can be cut from what waits, and nothing more is broken.
    rest = [fragment for fragment in fragments if fragment.id not in placed]
    assert cut(rest, length=length) == ([], [])


@dataclass
class Buffer:
    """A buffer that forms chunks and batches, and admits fragments, by the platform's rules."""

    slots: int
    length: int
    batch_size: int
    batches_ahead: float
    waiting: list[list[WaitingFragment]] = field(default_factory=list)
    accepted: int = 0
    queued: int = 0
    trained: int = 0

    def __post_init__(self) -> None:
        self.waiting = [[] for _ in range(self.slots)]
        self._numbers = [0] * self.slots

    @property
    def room(self) -> int:
        return admission_capacity(
            batches_ahead=self.batches_ahead,
            trained=self.trained,
            per_batch=self.batch_size,
            accepted=self.accepted,
            running=0,
        )

    def push(self, slot: int) -> None:
        number = self._numbers[slot]
        self._numbers[slot] += 1
        self.accepted += 1
        fragments = [*self.waiting[slot], WaitingFragment(number, number, number > 0)]
        chunks = cut(fragments, length=self.length).chunks
        placed = {item for chunk in chunks for item in chunk}
        self.waiting[slot] = [one for one in fragments if one.id not in placed]
        self.queued += len(placed)

    def train(self) -> None:
        while self.queued >= self.batch_size:
            self.queued -= self.batch_size
            self.trained += 1


@st.composite
def buffers(draw: st.DrawFn) -> Buffer:
    length = draw(st.integers(1, 6))
    return Buffer(
        slots=draw(st.integers(1, 8)),
        length=length,
        batch_size=length * draw(st.integers(1, 6)),
        batches_ahead=draw(st.integers(1, 6) | st.floats(0.1, 6)),
    )


def has_room(buffer: Buffer) -> bool:
    is_whole = isinstance(buffer.batches_ahead, int)
    shortage = admission_shortage(
        slots=buffer.slots,
        length=buffer.length,
        batch_size=buffer.batch_size,
        max_staleness=int(buffer.batches_ahead) - 1 if is_whole else None,
        off_policy_tolerance=buffer.batches_ahead,
    )
    return shortage is None


@given(buffers(), st.data())
def test_a_fleet_with_enough_admission_trains_with_any_fast_slots(
    buffer: Buffer, data: st.DataObject
) -> None:
    if not has_room(buffer):
        return
    favourite = data.draw(st.lists(st.integers(0, buffer.slots - 1), min_size=1, max_size=20))

    for turn in range(1000):
        if buffer.trained >= 3:
            break
        assert buffer.room
        buffer.push(favourite[turn % len(favourite)])
        buffer.train()

    assert buffer.trained >= 3


@given(buffers())
def test_slots_of_the_same_pace_stop_a_fleet_exactly_below_the_limit(buffer: Buffer) -> None:
    expected = has_room(buffer)

    # The slot with the shortest incomplete chunk continues: the worst order.
    while buffer.room and buffer.trained < 3:
        buffer.push(min(range(buffer.slots), key=lambda slot: len(buffer.waiting[slot])))
        buffer.train()

    assert (buffer.trained >= 3) == expected
