"""Tasks are constructed from specs, and errors name the wrong argument."""

from typing import Any

import pytest

from rollouts.tasks.rules.task import (
    Addition,
    Calculator,
    InvalidTask,
    Reverse,
    Sort,
    Task,
    alphabet_of,
    make_task,
)


@pytest.mark.parametrize(
    ("spec", "kwargs", "task"),
    [
        ("task:reverse", {}, Reverse()),
        ("task:reverse", {"length": 5, "letters": 8}, Reverse(length=5, letters=8)),
        ("task:sort", {"length": 2}, Sort(length=2)),
        ("task:addition", {"digits": 3}, Addition(digits=3)),
        ("task:calculator", {"calls": 1}, Calculator(calls=1)),
    ],
)
def test_a_spec_and_its_arguments_make_a_task(
    spec: str, kwargs: dict[str, Any], task: Task
) -> None:
    assert make_task(spec, kwargs) == task


@pytest.mark.parametrize(
    ("spec", "kwargs", "message"),
    [
        ("task:chess", {}, "spec: task:chess is unknown; choose from task:reverse, task:sort"),
        ("reverse", {}, "spec: reverse is unknown; choose from"),
        ("task:sort", {"digits": 3}, "kwargs.digits: task:sort accepts only length"),
        ("task:sort", {"length": 0}, "kwargs.length: 0 is not an integer from 1"),
        ("task:sort", {"length": "4"}, "kwargs.length: '4' is not an integer"),
        ("task:sort", {"length": True}, "kwargs.length: True is not an integer"),
        ("task:sort", {"length": 10**9}, "kwargs.length: 1000000000 is not an integer"),
    ],
)
def test_invalid_specs_are_named(spec: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        make_task(spec, kwargs)

    assert str(caught.value).startswith(message)


def test_an_alphabet_holds_each_character_of_all_tasks_once() -> None:
    tasks = [Sort(length=3), Addition(), Reverse(letters=3)]

    assert alphabet_of(tasks) == "+0123456789:=>abc"
    assert alphabet_of(reversed(tasks)) == alphabet_of(tasks)
