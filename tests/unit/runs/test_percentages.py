"""Consistent formatting of amounts."""

import pytest

from web.rules.amounts import duration, percent


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (0.0, "0 %"),
        (0.714, "71 %"),
        (0.005, "1 %"),
        (0.125, "13 %"),
        (1.0, "100 %"),
        (2.5, "250 %"),
    ],
)
def test_a_part_is_whole_percent_with_a_space(part: float, words: str) -> None:
    assert percent(part) == words


def test_percentages_may_have_decimals() -> None:
    assert percent(0.9731, digits=1) == "97.3 %"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (40, "40 s"), (119, "119 s"), (2100, "35 min"), (18_000, "5 h"), (3e5, "3 d")],
)
def test_a_duration_is_in_its_usual_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words
