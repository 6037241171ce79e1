"""Values of `info` are summed within limits; the others are counted."""

import math

import pytest

from rolldeck.fleet_wire import INFO_NAMES_AT_MOST, InfoDrops, InfoSum, InfoWindow
from rollouts.fleet.worker.info_totals import InfoTotals


def test_values_are_summed_by_name_and_scope_until_they_are_collected() -> None:
    totals = InfoTotals()
    totals.add("speed", 1.0, scope="step")
    totals.add("speed", 3.0, scope="step")
    totals.add("speed", 9.0, scope="episode")

    assert totals
    assert totals.pop() == InfoWindow(
        sums=[
            InfoSum(name="speed", scope="step", count=2, total=4.0),
            InfoSum(name="speed", scope="episode", count=1, total=9.0),
        ]
    )
    assert not totals
    assert totals.pop() == InfoWindow()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2e30])
def test_values_out_of_range_are_counted(value: float) -> None:
    totals = InfoTotals()
    totals.add("speed", value, scope="step")
    totals.add("speed", 1.0, scope="step")

    window = totals.pop()

    assert [one.total for one in window.sums] == [1.0]
    assert window.dropped == [InfoDrops(problem="out_of_range", count=1, example="speed")]


@pytest.mark.parametrize("name", ["x" * 65, "", "a\nb", "50%", "x" * 10_000])
def test_invalid_names_are_counted_with_a_short_example(name: str) -> None:
    totals = InfoTotals()
    totals.add(name, 1.0, scope="step")
    totals.add(name, 2.0, scope="step")

    assert totals.pop() == InfoWindow(
        dropped=[InfoDrops(problem="invalid_name", count=2, example=name[:200])]
    )


def test_the_first_names_are_kept_when_sums_are_collected() -> None:
    totals = InfoTotals()
    for number in range(INFO_NAMES_AT_MOST + 2):
        totals.add(f"n{number}", 1.0, scope="step")
    first = totals.pop()
    totals.add("another", 1.0, scope="step")
    totals.add("n0", 1.0, scope="episode")
    second = totals.pop()

    assert len(first.sums) == INFO_NAMES_AT_MOST
    assert first.dropped == [InfoDrops(problem="too_many_names", count=2, example="n64")]
    assert [one.name for one in second.sums] == ["n0"]
    assert [one.example for one in second.dropped] == ["another"]


def test_parts_of_a_fleet_are_merged_with_their_counts() -> None:
    whole = InfoTotals()
    drops = InfoDrops(problem="out_of_range", count=3, example="a")
    for _ in range(2):
        part = InfoSum(name="speed", scope="step", count=4, total=8.0)
        whole.merge(InfoWindow(sums=[part], dropped=[drops]))
    whole.merge(InfoWindow(sums=[InfoSum(name="speed", scope="step", count=5, total=math.inf)]))

    window = whole.pop()

    assert window.sums == [InfoSum(name="speed", scope="step", count=8, total=16.0)]
    assert window.dropped == [InfoDrops(problem="out_of_range", count=11, example="a")]
