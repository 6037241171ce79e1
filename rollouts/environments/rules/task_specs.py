"""Make tasks from the specs that lessons name: ``task:reverse`` and its arguments."""

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from rollouts.environments.rules.calculator import Calculator
from rollouts.environments.rules.one_turn import Addition, Reverse, Sort
from rollouts.environments.rules.task import Task

KIND: Final = "task:"
TASKS: Final[Mapping[str, type[Reverse | Sort | Addition | Calculator]]] = MappingProxyType(
    {"reverse": Reverse, "sort": Sort, "addition": Addition, "calculator": Calculator}
)
MOST: Final = 1000
"""Bound of every argument: more is a mistake that would fill the memory."""


class InvalidTask(ValueError):
    """There is no such task, or it takes no such argument; the text names it."""


def make_task(spec: str, kwargs: Mapping[str, Any]) -> Task:
    """Return the task that `spec` names, with its difficulty in `kwargs`.

    Raises:
        InvalidTask: Naming the spec or the argument.
    """
    kind = TASKS.get(spec.removeprefix(KIND)) if spec.startswith(KIND) else None
    if kind is None:
        known = ", ".join(KIND + name for name in TASKS)
        raise InvalidTask(f"spec: {spec} is none of {known}")
    names = [field.name for field in dataclasses.fields(kind)]
    for name, value in kwargs.items():
        if name not in names:
            raise InvalidTask(f"kwargs.{name}: {spec} takes only {', '.join(names)}")
        if type(value) is not int or not 1 <= value <= MOST:
            raise InvalidTask(f"kwargs.{name}: {value!r} is no whole number from 1 to {MOST}")
    return kind(**kwargs)


def alphabet_of(tasks: Iterable[Task]) -> str:
    """Return every character of some tasks once, in the order of their code points."""
    return "".join(sorted({character for task in tasks for character in task.alphabet}))
