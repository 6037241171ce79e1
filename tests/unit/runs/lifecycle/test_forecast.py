"""Disk forecasts require enough samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.lifecycle.rules.forecast import HORIZON_SECONDS, forecast

HOUR = 3600.0


def line(*, begin: float, per_hour: float, minutes: int = 60) -> list[tuple[float, float]]:
    return [(60.0 * each, begin + per_hour * each / 60) for each in range(minutes + 1)]


def test_a_short_series_has_no_forecast() -> None:
    assert forecast([], floor=0).state == "unknown"
    assert forecast(line(begin=100, per_hour=-10, minutes=29), floor=0).state == "unknown"
    sparse = [(0.0, 100.0), (HOUR, 90.0)]
    assert forecast(sparse, floor=0).state == "unknown"


def test_a_shrinking_amount_reaches_its_floor_at_its_rate() -> None:
    prediction = forecast(line(begin=110, per_hour=-10), floor=20)

    assert prediction.state == "shrinks"
    assert prediction.per_hour == pytest.approx(-10)
    assert prediction.seconds_left == pytest.approx(8 * HOUR)


def test_a_minimal_slope_is_steady() -> None:
    assert forecast(line(begin=100, per_hour=1), floor=20).state == "steady"
    assert forecast(line(begin=1e12, per_hour=-1), floor=20).state == "steady"


def test_an_amount_below_its_floor_is_reported_at_once() -> None:
    assert forecast([(0.0, 5.0)], floor=20).state == "below"


@given(st.lists(st.floats(1, 1e15), min_size=40, max_size=80), st.floats(0, 0.9))
def test_forecasts_are_within_the_horizon(amounts: list[float], floor: float) -> None:
    prediction = forecast([(60.0 * at, amount) for at, amount in enumerate(amounts)], floor=floor)

    if prediction.seconds_left is not None:
        assert 0 <= prediction.seconds_left < HORIZON_SECONDS
        assert prediction.state == "shrinks"
    else:
        assert prediction.state == "steady"
