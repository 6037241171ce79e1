"""Construction of tasks from lesson specs: ``task:reverse`` and its arguments."""

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from rollouts.tasks.rules.calculator import Calculator
from rollouts.tasks.rules.one_turn import Addition, Reverse, Sort
from rollouts.tasks.rules.task import Task

KIND: Final = "task:"
TASKS: Final[Mapping[str, type[Reverse | Sort | Addition | Calculator]]] = MappingProxyType(
    {"reverse": Reverse, "sort": Sort, "addition": Addition, "calculator": Calculator}
)
MOST: Final = 1000
"""Maximum of every argument: larger values are mistakes that would exhaust memory."""


class InvalidTask(ValueError):
    """The task does not exist or does not accept the argument; the text names it."""


def make_task(spec: str, kwargs: Mapping[str, Any]) -> Task:
    """Return the task of `spec`, with its difficulty in `kwargs`.

    Raises:
        InvalidTask: With the spec or the argument.
    """
    kind = TASKS.get(spec.removeprefix(KIND)) if spec.startswith(KIND) else None
    if kind is None:
        known = ", ".join(KIND + name for name in TASKS)
        raise InvalidTask(f"spec: {spec} is unknown; choose from {known}")
    names = [field.name for field in dataclasses.fields(kind)]
    for name, value in kwargs.items():
        if name not in names:
            raise InvalidTask(f"kwargs.{name}: {spec} accepts only {', '.join(names)}")
        if type(value) is not int or not 1 <= value <= MOST:
            raise InvalidTask(f"kwargs.{name}: {value!r} is not an integer from 1 to {MOST}")
    return kind(**kwargs)


def alphabet_of(tasks: Iterable[Task]) -> str:
    """Return every character of some tasks once, ordered by code point."""
    return "".join(sorted({character for task in tasks for character in task.alphabet}))
