"""The random draws of a task depend only on its numbers."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rollouts.lessons.rules.lessons import draw_point, evaluation_seed, training_seed

SEEDS = st.integers(0, 2**31 - 1)
TASKS = st.integers(0, 2**62)


@given(SEEDS, TASKS)
def test_a_point_is_at_least_0_and_below_1(seed: int, task: int) -> None:
    assert 0 <= draw_point(seed=seed, task=task) < 1


def test_points_are_spread_evenly() -> None:
    points = [draw_point(seed=7, task=task) for task in range(10_000)]

    tenths = Counter(int(10 * point) for point in points)
    assert min(tenths.values()) > 850
    assert max(tenths.values()) < 1_150


@given(SEEDS, st.text(max_size=8), TASKS)
def test_seeds_fit_every_generator(seed: int, lesson: str, example: int) -> None:
    assert 0 <= training_seed(seed=seed, lesson=lesson, first_example=example) < 2**31
    assert 0 <= evaluation_seed(seed=seed, lesson=lesson) < 2**31


def test_tasks_lessons_and_modes_have_separate_seeds() -> None:
    seeds = {
        *(training_seed(seed=1, lesson="a", first_example=first) for first in range(100)),
        *(training_seed(seed=1, lesson="b", first_example=first) for first in range(100)),
        *(training_seed(seed=2, lesson="a", first_example=first) for first in range(100)),
        evaluation_seed(seed=1, lesson="a"),
        evaluation_seed(seed=1, lesson="b"),
    }

    assert len(seeds) == 302
