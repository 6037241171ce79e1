"""Numbers of groups by key, and those that are ignored by problem."""

from typing import Any

import pytest

from buffer.inspect.rules.facts import LARGEST_FIELD
from buffer.inspect.rules.numbers import (
    MOST_KEYS,
    MOST_OF_GROUP,
    Numbers,
    numbers_of,
)
from rolldeck.metric_names import environment_prefix
from tests.unit.buffer.inspect.test_group_views import opened

PREFIX = "env/math/"


@pytest.mark.parametrize(
    ("fields", "sums"),
    [
        ({}, {}),
        ({"metadata": {"difficulty": 4}}, {"difficulty": (4, 1)}),
        ({"metadata": [{"turns": 1}, {"turns": 4}]}, {"turns": (5, 2)}),
        ({"metadata": [{"turns": 1}, {}]}, {"turns": (1, 1)}),
        ({"info": {"solved": True}, "metadata": {"level": 2}}, {"solved": (1, 1), "level": (2, 1)}),
        ({"info": [{"solved": True}, {"solved": False}]}, {"solved": (1, 2)}),
        ({"overrides": [{"temperature": 0.5}, {"temperature": 1.0}]}, {"temperature": (1.5, 2)}),
        ({"group_overrides": {"level": 3}}, {"level": (3, 1)}),
        ({"info": {"a": {"b": {"c": 1.5}}}}, {"a.b.c": (1.5, 1)}),
        ({"metadata": {"topic": "sums", "list": [1, 2], "none": None}}, {}),
        # Other fields are columns of lists, but no series.
        ({"difficulty": 4.5, "generation_params": {"temperature": 0.7}}, {}),
    ],
    ids=str,
)
def test_numbers_and_booleans_are_summed_by_key(
    fields: dict[str, Any], sums: dict[str, Any]
) -> None:
    found = numbers_of(opened(**fields))

    assert (found.sums, found.ignored) == (sums, {})


@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        ({"metadata": {"reward": "0.5", "kept": 1}}, {"text": (1, "reward")}),
        ({"metadata": {"reward": "nan", "kept": 1}}, {"text": (1, "reward")}),
        ({"metadata": {"huge": 1e300, "kept": 1}}, {"out_of_range": (1, "huge")}),
        ({"metadata": {"int": 10**40, "kept": 1}}, {"out_of_range": (1, "int")}),
        ({"metadata": {"p%": 1, "kept": 1}}, {"invalid_name": (1, "p%")}),
        ({"metadata": {"x" * 200: 1, "kept": 1}}, {"invalid_name": (1, "x" * 120)}),
        ({"metadata": {"kept": 1}, "overrides": [{"kept": 2}, {}]}, {"repeated": (1, "kept")}),
        (
            {"metadata": {"kept": 1}, "info": {"text": "x" * LARGEST_FIELD}},
            {"unreadable": (1, "info")},
        ),
        ({"metadata": {"kept": 1}, "info": [{"a": 1}] * 3}, {"unreadable": (1, "info")}),
    ],
    ids=[
        "text",
        "text of NaN",
        "out of range",
        "large integer",
        "sign",
        "long",
        "twice",
        "large",
        "other length",
    ],
)
def test_other_numbers_are_counted_by_problem(
    fields: dict[str, Any], ignored: dict[str, Any]
) -> None:
    found = Numbers()

    new = found.merge(numbers_of(opened(**fields)), prefix=PREFIX, known=set())

    assert (found.sums, new) == ({"kept": (1, 1)}, ["kept"])
    assert found.ignored == ignored


def test_names_are_bounded_by_group_and_by_environment() -> None:
    many = {f"key-{number}": number for number in range(MOST_OF_GROUP + 9)}
    group = numbers_of(opened(metadata=many))
    known: set[str] = set()
    found = Numbers()
    for at in range(1000):
        known.update(found.merge(Numbers(sums={f"{at}": (1.0, 1)}), prefix=PREFIX, known=known))
    again = found.merge(Numbers(sums={"0": (1.0, 1)}), prefix=PREFIX, known=known)

    assert len(group.sums) == MOST_OF_GROUP
    assert group.ignored == {"too_many_names": (9, f"key-{MOST_OF_GROUP + 8}")}
    assert (len(known), again) == (MOST_KEYS, [])
    assert found.sums["0"] == (2.0, 2)
    assert found.ignored == {"too_many_names": (1000 - MOST_KEYS, "999")}


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("math", "env/math/"), ("gsm8k:hard", "env/gsm8k_hard/"), ("", "env/unregistered/")],
)
def test_series_begin_with_the_name_of_their_environment(name: str, prefix: str) -> None:
    assert environment_prefix(name) == prefix
