"""What a task in text is: examples by number, and a judgement of what is answered."""

import hashlib
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Mode = Literal["train", "eval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One problem of a task."""

    key: str
    """Names task, mode and number; the same one is the same problem for ever."""
    prompt: str
    answer: str
    """Expected; a multi-turn task's own note of what to check."""


class Turn(NamedTuple):
    """What the policy wrote in one turn."""

    text: str
    is_truncated: bool = False
    """It ran into its length and may have had more to say."""


class Reply(NamedTuple):
    """What the task says to the policy's turns so far."""

    text: str
    """What the policy reads next; empty when it is over."""
    is_over: bool
    reward: float
    """Of the whole episode, in [0, 1]; 0 while it goes on."""
    is_correct: bool = False


class Task(Protocol):
    """Problems of one kind and difficulty.

    An episode is ``reply = task.reply(example, turns)`` after each turn, until it is over.
    """

    @property
    def name(self) -> str:
        """Kind and difficulty."""

    @property
    def most_turns(self) -> int:
        """Turns of the policy in one episode."""

    @property
    def alphabet(self) -> str:
        """Every character that prompts, answers and replies are made of."""

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return a problem made of nothing but the draws."""

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Judge the last of one or more turns."""

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return the turns of somebody who can do it, for a policy to imitate."""


def examples(task: Task, numbers: Iterable[int], *, mode: Mode, seed: int) -> list[Example]:
    """Return the problems with these numbers; training and evaluation share none but by chance.

    Args:
        task: Makes them.
        numbers: Of the examples, 0 or more.
        mode: Part of what the draws derive from.
        seed: Of the run; evaluation uses the same for ever.
    """
    found = []
    for number in numbers:
        name = f"{task.name}/{mode}/{seed}/{number}"
        drawn = random.Random(hashlib.blake2s(name.encode()).digest())  # noqa: S311 no secret
        found.append(task.example(drawn, key=name))
    return found
