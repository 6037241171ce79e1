"""Episode windows aggregate ended episodes and their outcomes."""

from typing import Any

import pytest

from rollouts.fleet.worker.episodes import Episode, EpisodeStatistics


def make_episode(total_return: float = 1.0, **changes: Any) -> Episode:
    fields = {
        "environment": "gymnasium:X-v0",
        "total_return": total_return,
        "discounted_return": total_return / 2,
        "length": int(total_return) * 2,
        "outcome": "terminated",
    }
    return Episode(**{**fields, **changes})


def test_a_window_describes_its_episodes() -> None:
    statistics = EpisodeStatistics(worker=3, now=10.0)
    for total_return in range(1, 12):
        statistics.add(make_episode(total_return))
    (window,) = statistics.pop(now=12.0)

    assert (window.worker, window.seconds, window.count) == (3, 2.0, 11)
    assert (window.return_sum, window.return_mean) == (66.0, 6.0)
    assert (window.return_min, window.return_max) == (1.0, 11.0)
    assert (window.return_p10, window.return_p50, window.return_p90) == (2.0, 6.0, 10.0)
    assert window.discounted_return_mean == 3.0
    assert (window.length_mean, window.length_max) == (12.0, 22)
    assert window.returns == list(range(1, 12))


def test_outcomes_are_counted_and_aborted_returns_are_excluded() -> None:
    statistics = EpisodeStatistics(worker=0, now=0.0)
    statistics.add(make_episode(10.0))
    statistics.add(make_episode(20.0, outcome="truncated"))
    statistics.add(make_episode(1.0, outcome="aborted"))
    (window,) = statistics.pop(now=1.0)

    assert (window.terminated, window.truncated, window.aborted) == (1, 1, 1)
    assert (window.count, window.return_mean, window.returns) == (3, 15.0, [10.0, 20.0])
    assert len(window.lengths) == len(window.returns)


def test_a_window_of_aborted_episodes_only_has_no_returns() -> None:
    statistics = EpisodeStatistics(worker=0, now=0.0)
    statistics.add(make_episode(1.0, outcome="aborted"))
    (window,) = statistics.pop(now=1.0)

    assert (window.count, window.aborted, window.returns) == (1, 1, [])


def test_environments_and_modes_have_separate_windows() -> None:
    statistics = EpisodeStatistics(worker=0, now=0.0)
    statistics.add(make_episode())
    statistics.add(make_episode(mode="eval"))
    statistics.add(make_episode(environment="gymnasium:Y-v0"))

    assert len(statistics.pop(now=1.0)) == 3


def test_a_window_is_taken_once_and_without_episodes_there_is_none() -> None:
    statistics = EpisodeStatistics(worker=0, now=0.0)
    statistics.add(make_episode())
    statistics.pop(now=1.0)

    assert statistics.pop(now=2.0) == []


@pytest.mark.parametrize("count", [100, 250])
def test_at_most_the_last_hundred_returns_are_kept(count: int) -> None:
    statistics = EpisodeStatistics(worker=0, now=0.0)
    for number in range(count):
        statistics.add(make_episode(float(number)))
    (window,) = statistics.pop(now=1.0)

    assert window.returns == [float(n) for n in range(count - 100, count)]
    assert len(window.lengths) == 100


def test_a_window_identifies_its_last_and_its_extreme_episodes() -> None:
    statistics = EpisodeStatistics(worker=0, now=0.0, incarnation="5f2c")
    for number, total_return in enumerate([50.0, 1.0, 99.0, *([50.0] * 200)]):
        length = 500 if number == 4 else 10
        statistics.add(make_episode(total_return, length=length, slot=number % 8, number=number))
    (window,) = statistics.pop(now=1.0)

    assert window.incarnation == "5f2c"
    assert window.numbers == [*range(103, 203), 1, 2, 4]
    assert window.slots == [number % 8 for number in window.numbers]


def test_a_window_identifies_no_episodes_unless_all_have_slots() -> None:
    statistics = EpisodeStatistics(worker=0, now=0.0)
    statistics.add(make_episode(1.0, outcome="aborted", slot=2, number=4))
    statistics.add(make_episode(1.0, slot=3, number=7))
    (window,) = statistics.pop(now=1.0)
    statistics.add(make_episode(1.0, slot=0, number=10))
    statistics.add(make_episode(1.0))
    (unnamed,) = statistics.pop(now=2.0)
    statistics.add(make_episode(1.0, outcome="aborted", slot=2, number=5))
    (aborted,) = statistics.pop(now=3.0)

    assert (window.slots, window.numbers) == ([3] * 4, [7] * 4)
    assert [(each.slots, each.numbers) for each in (unnamed, aborted)] == [([], [])] * 2
