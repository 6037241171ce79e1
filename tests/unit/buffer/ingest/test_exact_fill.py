from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from buffer.ingest.rules.arrivals import MOST_WAITING, WaitingGroups, complete
from buffer.items.rules.exact_fill import exact_fill

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
        if not waiting.waits(sequences):
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
