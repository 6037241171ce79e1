"""Figures of trainings on stale data, and their table on the page."""

import pytest

from benchmarks import staleness
from benchmarks.page_section import renewed
from benchmarks.staleness import SEEDS, SYNCHRONOUS, TASKS, reached, table

WHERE = {"machine": "two cores", "commit": "abc", "date": "2026-01-02"}


def curve(early: float, late: float) -> list[float]:
    return [early] * 30 + [late] * 20


def test_the_final_value_is_that_of_the_last_train_steps() -> None:
    assert reached(curve(0.0, 9.0)) == 9.0


def test_the_page_holds_the_table_of_the_results() -> None:
    results = staleness.read()
    page = staleness.PAGE.read_text(encoding="utf-8")

    text = renewed(page, table(results), begin=staleness.BEGIN, end=staleness.END)

    assert page == text
    for name, curves in results["tasks"].items():
        assert {*curves} == {*TASKS[name].trials}
        assert {len(seeds) for seeds in curves.values()} == {SEEDS}


@pytest.mark.parametrize(
    ("early", "late", "words"),
    [
        ([1.0, 3.0], [8.0, 9.0], "yes"),
        ([5.0, 6.0], [9.0, 10.0], "yes"),
        ([0.1, 0.2], [8.0, 9.0], "at the end, learns more slowly"),
        ([1.0, 3.0], [6.0, 6.9], "no"),
    ],
    ids=["equal", "better", "slower", "worse"],
)
def test_a_trial_is_compared_with_the_range_of_the_synchronous_seeds(
    early: list[float], late: list[float], words: str
) -> None:
    fresh = [curve(1.2, 8.0), curve(3.0, 9.0)]  # means 3.9 and 5.4
    stale = [curve(*pair) for pair in zip(early, late, strict=True)]

    text = table(WHERE | {"tasks": {"a task": {SYNCHRONOUS: fresh, "stale": stale}}})

    (row,) = (line for line in text.splitlines() if line.startswith("| a task | stale"))
    assert row.endswith(f"| {words} |")
    assert text.endswith("two cores; commit abc; 2026-01-02.")
