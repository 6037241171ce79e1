"""Protocol of text tasks: examples by number, and scoring of answers."""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Mode = Literal["train", "eval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One problem of a task."""

    key: str
    """Task, mode and number; the same key always means the same problem."""
    prompt: str
    answer: str
    """Expected answer; a multi-turn task may store other data to check."""
    messages: Sequence[Mapping[str, str]] = ()
    """Conversation with `role` and `content` that the tokenizer's chat template renders; empty if
    `prompt` is the whole text."""
    tokens: Sequence[int] = ()
    """Prompt in tokens of the run's tokenizer; empty if `prompt` or `messages` is the prompt."""


class Turn(NamedTuple):
    """Output of the policy in one turn."""

    text: str
    is_truncated: bool = False
    """Whether the turn was cut off at its maximum length."""


class Reply(NamedTuple):
    """Response of the task to the policy's turns so far."""

    text: str
    """Next input of the policy; empty when the episode is over."""
    is_over: bool
    reward: float
    """Reward of the whole episode, in [0, 1]; 0 while it continues."""
    is_correct: bool = False


class EpisodeFailed(Exception):
    """The task cannot continue an episode, whose group is dropped; `kind` is that of the event."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


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
        """Every character of prompts, answers and replies."""

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return a problem determined only by the random draws."""

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the last of one or more turns."""

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return the turns of a correct solution, for behavior cloning."""


@runtime_checkable
class StoredTask(Protocol):
    """A task whose problems are stored instead of drawn."""

    def problem(self, number: int, *, mode: Mode, seed: int) -> Example:
        """Return problem `number`, 0 or more, in an order that depends on mode and seed."""


def examples(task: Task, numbers: Iterable[int], *, mode: Mode, seed: int) -> list[Example]:
    """Return the problems with these numbers; training and evaluation overlap only by chance.

    Args:
        task: Task that creates them.
        numbers: Numbers of the examples, 0 or more.
        mode: Part of the random seed.
        seed: Seed of the run; evaluation always uses the same.
    """
    if isinstance(task, StoredTask):
        return [task.problem(number, mode=mode, seed=seed) for number in numbers]
    found = []
    for number in numbers:
        name = f"{task.name}/{mode}/{seed}/{number}"
        drawn = random.Random(hashlib.blake2s(name.encode()).digest())  # noqa: S311 no secret
        found.append(task.example(drawn, key=name))
    return found
