"""Tests of environment statistics over the newest data of a few runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rollouts.environments.rules import Figures, Sample, figures_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def sample(**given: Any) -> Sample:
    plain: dict[str, Any] = {
        "run_id": 1,
        "env_id": 0,
        "lesson": None,
        "recent": 30,
        "oldest_at": NOON - timedelta(hours=2),
        "reward_sum": 15.0,
        "rewarded": 30,
        "groups": 20,
        "equal": 5,
        "is_cut": False,
    }
    return Sample(**(plain | given))


def test_figures_include_only_samples_of_members() -> None:
    samples = [sample(), sample(env_id=1, reward_sum=900.0), sample(run_id=2, reward_sum=0.0)]

    figures = figures_of(samples, members=[(1, [0], [None]), (2, [0], [None])], now=NOON)

    assert figures == Figures(per_hour=60, reward_mean=0.25, zero_variance_share=0.25, examined=60)


def test_a_lesson_is_distinguished_from_the_other_lessons_of_its_run() -> None:
    samples = [sample(env_id=None, lesson="sort"), sample(env_id=None, lesson="reverse", recent=4)]

    assert figures_of(samples, members=[(1, [None], ["reverse"])], now=NOON).per_hour == 4


def test_a_fleet_steps_nothing_but_its_environment() -> None:
    samples = [sample(env_id=None), sample(run_id=7, env_id=None)]

    assert figures_of(samples, members=[(7, [None], [None])], now=NOON).examined == 30


def test_a_rate_covers_the_measured_period() -> None:
    ten_minutes = sample(is_cut=True, oldest_at=NOON - timedelta(minutes=10))
    members = [(1, [0], [None])]

    assert figures_of([ten_minutes], members=members, now=NOON).per_hour == 180
    # The observed interval is that of the run, not of the environment.
    other = sample(env_id=1, is_cut=True, oldest_at=NOON - timedelta(minutes=30))
    assert figures_of([ten_minutes, other], members=members, now=NOON).per_hour == 60


def test_a_short_burst_has_no_extreme_rate() -> None:
    burst = sample(is_cut=True, oldest_at=NOON - timedelta(milliseconds=3))

    assert figures_of([burst], members=[(1, [0], [None])], now=NOON).per_hour == 1800


@pytest.mark.parametrize("samples", [[], [sample(run_id=9)]])
def test_without_data_figures_are_unknown(samples: list[Sample]) -> None:
    assert figures_of(samples, members=[(1, [0], [None])], now=NOON) == Figures(
        per_hour=None, reward_mean=None, zero_variance_share=None, examined=0
    )


def test_figures_that_no_group_supports_are_left_out() -> None:
    figures = figures_of(
        [sample(rewarded=0, reward_sum=0.0, groups=0, equal=0)],
        members=[(1, [0], [None])],
        now=NOON,
    )

    assert (figures.reward_mean, figures.zero_variance_share) == (None, None)
