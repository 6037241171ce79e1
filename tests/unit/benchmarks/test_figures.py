"""Figures of measurements, and their comparison with targets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Limit, Paired, Target, alone, in_turn, percentile

SECONDS = st.floats(min_value=1e-6, max_value=1e6)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]

    assert [percentile(values, p) for p in (0, 20, 21, 50, 99, 100)] == [1, 1, 2, 3, 5, 5]


def test_an_empty_list_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        percentile([], 50)


@given(st.lists(SECONDS, min_size=1), st.floats(min_value=0, max_value=100))
def test_a_percentile_bounds_its_share_of_the_values(values: list[float], percent: float) -> None:
    result = percentile(values, percent)

    assert result in values
    assert sum(value <= result for value in values) >= percent / 100 * len(values) - 1e-9


def test_a_ratio_above_one_is_better_for_both_directions() -> None:
    rates = Paired(ours=[30.0], peer=[10.0], better="more")
    waits = Paired(ours=[10.0], peer=[30.0], better="less")

    assert rates.ratios == waits.ratios == [3.0]


def test_the_ratio_is_the_median_of_pairs_and_not_the_ratio_of_medians() -> None:
    # The machine was busy in the second pair: both were slow together.
    taken = Paired(ours=[40.0, 4.0, 30.0], peer=[10.0, 1.0, 15.0], better="more")

    assert taken.as_json() == {
        "ours": 30.0,
        "peer": 10.0,
        "ratio": 4.0,
        "pairs": 3,
        "spread": {"ours": [4.0, 40.0], "peer": [1.0, 15.0], "ratio": [2.0, 4.0]},
    }


@pytest.mark.parametrize(("ours", "peer"), [([], []), ([1.0], []), ([1.0], [1.0, 2.0])])
def test_samples_that_do_not_pair_are_refused(ours: list[float], peer: list[float]) -> None:
    with pytest.raises(ValueError, match="pair"):
        Paired(ours=ours, peer=peer, better="more")


def test_the_two_sides_are_measured_in_turn() -> None:
    order: list[str] = []

    def measure(side: str, value: float) -> float:
        order.append(side)
        return value

    taken = in_turn(
        3, ours=lambda: measure("A", 2.0), peer=lambda: measure("B", 1.0), better="more"
    )

    assert "".join(order) == "ABABAB"
    assert taken.ratios == [2.0, 2.0, 2.0]


def test_values_without_a_counterpart_have_no_ratio() -> None:
    taken = alone([1.0, 3.0, 2.0])

    assert (taken["ours"], taken["peer"], taken["ratio"], taken["pairs"]) == (2.0, None, None, 3)


@pytest.mark.parametrize(
    ("figures", "is_met"),
    [
        ({"p50": 10.0, "p99": 50.0}, True),
        ({"p50": 10.1, "p99": 50.0}, False),
        ({"p50": 1.0, "p99": 51.0}, False),
        ({"p50": 1.0}, False),
        ({"p50": 1.0, "p99": None}, False),
    ],
)
def test_a_target_is_met_when_every_limit_holds(figures: dict[str, float], is_met: bool) -> None:
    limits = (Limit(figure="p50", at_most=10), Limit(figure="p99", at_most=50))
    target = Target(words="", limits=limits)

    assert target.is_met(figures) is is_met


def test_a_lower_limit_includes_its_bound() -> None:
    limit = Limit(figure="ratio", at_least=2)

    assert [limit.holds({"ratio": ratio}) for ratio in (1.99, 2.0, 2.01)] == [False, True, True]
