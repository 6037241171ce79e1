"""Windows of several environments are aggregated by episode and by environment."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.episodes.rules import EpisodeMeans, Window, tasks, unweighted, weighted


def window(environment: str = "a", *returns: float, **changes: Any) -> Window:
    fields: dict[str, Any] = {
        "environment": environment,
        "mode": "train",
        "count": len(returns),
        "return_mean": sum(returns) / max(1, len(returns)),
        "discounted_return_mean": sum(returns) / max(1, len(returns)) / 2,
        "length_mean": 10.0,
        "terminated": len(returns),
        "truncated": 0,
        "aborted": 0,
        "returns": list(returns),
    }
    return Window(**{**fields, **changes})


def test_an_environment_with_many_episodes_counts_by_them_or_once() -> None:
    tasks_found = tasks([window("short", 1.0, 1.0, 1.0), window("long", 5.0)])

    assert weighted(tasks_found) == EpisodeMeans(2.0, 1.0, 10.0)
    assert unweighted(tasks_found) == EpisodeMeans(3.0, 1.5, 10.0)
    assert (weighted([]), unweighted([])) == (None, None)


def test_training_and_evaluation_are_never_mixed() -> None:
    tasks_found = tasks([window("a", 1.0), window("a", 9.0, mode="eval")])

    assert [(task.mode, task.means.total_return) for task in tasks_found] == [
        ("eval", 9.0),
        ("train", 1.0),
    ]


def test_percentiles_are_of_the_returns_of_all_windows() -> None:
    [task] = tasks([window("a", *map(float, range(51))), window("a", *map(float, range(51, 101)))])

    assert task.percentiles == {"5": 5.0, "25": 25.0, "50": 50.0, "75": 75.0, "95": 95.0}


def test_lengths_have_percentiles_if_reported() -> None:
    sent = window("a", 1.0, 1.0, 1.0, lengths=[10, 20, 30])
    [task] = tasks([sent, window("a", 1.0)])

    assert task.length_percentiles["50"] == 20.0
    assert task.length_percentiles["95"] == pytest.approx(29.0)
    assert tasks([window("a", 1.0)])[0].length_percentiles == {}


def test_aborted_episodes_are_counted_and_not_averaged() -> None:
    aborted = window("a", count=3, aborted=3, terminated=0, return_mean=-9.0)
    [task] = tasks([window("a", 4.0), aborted])

    assert (task.count, task.terminated, task.aborted) == (4, 1, 3)
    assert task.means.total_return == 4.0
    [alone] = tasks([aborted])
    assert (alone.means.total_return, alone.percentiles) == (-9.0, {})


RETURNS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@given(st.lists(RETURNS, min_size=1, max_size=10))
def test_the_weighted_mean_is_that_of_all_episodes(parts: list[list[float]]) -> None:
    tasks_found = tasks([window(f"e{number % 3}", *part) for number, part in enumerate(parts)])
    returns = [value for part in parts for value in part]

    mean = weighted(tasks_found)
    assert mean is not None
    assert mean.total_return == pytest.approx(sum(returns) / len(returns), abs=1e-6)
    assert sum(task.count for task in tasks_found) == len(returns)
