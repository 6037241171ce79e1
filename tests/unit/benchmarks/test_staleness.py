"""The staleness page contains the measured figures."""

import json
import math

import pytest

from benchmarks import staleness
from benchmarks.staleness import TRIALS, reached, renewed, steps_to, table

RESULTS = json.loads(staleness.RESULTS.read_text())


def test_the_target_is_reached_when_it_is_first_met_or_never() -> None:
    points = [(10, -math.inf), (20, 100.0), (30, 460.0), (40, 20.0), (50, 470.0)]

    assert steps_to(points, 450) == 30
    assert steps_to(points, 480) is None


def test_the_final_return_is_over_the_last_episodes() -> None:
    assert reached([(step, 0.0) for step in range(50)] + [(50 + i, 9.0) for i in range(20)]) == 9


def test_the_page_holds_the_table_of_the_results() -> None:
    page = staleness.PAGE.read_text(encoding="utf-8")

    assert table(RESULTS) in page
    assert renewed(page, RESULTS) == page


def test_a_trial_that_misses_the_target_is_marked() -> None:
    curves = {"curves": {"synchronous": [[[10, 3.0]]]}}

    assert table(curves).endswith("| synchronous | never | 3 |")


@pytest.mark.parametrize("name", list(TRIALS))
def test_every_trial_was_measured_with_three_seeds(name: str) -> None:
    assert len(RESULTS["curves"][name]) == 3


def test_with_stored_logprobs_old_data_leads_to_the_same_return_as_fresh_data() -> None:
    ends = {
        name: [reached(curve) for curve in curves] for name, curves in RESULTS["curves"].items()
    }

    assert min(ends["corrected"]) == pytest.approx(min(ends["synchronous"]), abs=5)
    assert min(ends["uncorrected"]) < 100
