"""Small text tasks with verifiable answers, in graded difficulty."""

from rollouts.core.tasks.calculator import Calculator
from rollouts.core.tasks.one_turn import Addition, Reverse, Sort
from rollouts.core.tasks.specs import InvalidTask, alphabet_of, make_task
from rollouts.core.tasks.task import Example, Mode, Reply, Task, Turn, examples

__all__ = [
    "Addition",
    "Calculator",
    "Example",
    "InvalidTask",
    "Mode",
    "Reply",
    "Reverse",
    "Sort",
    "Task",
    "Turn",
    "alphabet_of",
    "examples",
    "make_task",
]
