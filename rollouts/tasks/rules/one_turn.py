"""Single-turn tasks: reverse, sort, add."""

import random
import string
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import ClassVar

from rollouts.tasks.rules.task import Example, Reply, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverse:
    """Write a word backwards: the answer to ``abc>`` is ``cba``."""

    length: int = 3
    """Number of letters; the difficulty."""
    letters: int = 26
    """Number of different letters."""
    most_turns: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Kind and difficulty."""
        return f"reverse-{self.length}"

    @property
    def alphabet(self) -> str:
        """Every character of prompts and answers."""
        return string.ascii_lowercase[: self.letters] + ">"

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return a word of random letters."""
        word = "".join(random.choices(string.ascii_lowercase[: self.letters], k=self.length))
        return Example(key=key, prompt=f"{word}>", answer=word[::-1])

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the answer; letters in the right order earn partial credit."""
        return judged(example.answer, turns[-1])

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return the answer."""
        return (example.answer,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """Write digits in order: the answer to ``3142:`` is ``1234``."""

    length: int = 4
    """Number of digits; the difficulty."""
    most_turns: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Kind and difficulty."""
        return f"sort-{self.length}"

    @property
    def alphabet(self) -> str:
        """Every character of prompts and answers."""
        return string.digits + ":"

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return random digits."""
        drawn = random.choices(string.digits, k=self.length)
        return Example(key=key, prompt=f"{''.join(drawn)}:", answer="".join(sorted(drawn)))

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the answer; digits in the right order earn partial credit."""
        return judged(example.answer, turns[-1])

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return the answer."""
        return (example.answer,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Add two numbers: the answer to ``12+34=`` is ``46``."""

    digits: int = 2
    """Maximum digits of each number; the difficulty."""
    most_turns: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Kind and difficulty."""
        return f"addition-{self.digits}"

    @property
    def alphabet(self) -> str:
        """Every character of prompts and answers."""
        return string.digits + "+="

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return two random numbers."""
        first, second = (random.randrange(10**self.digits) for _ in range(2))
        return Example(key=key, prompt=f"{first}+{second}=", answer=str(first + second))

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the answer: right or wrong."""
        is_correct = _answer_of(turns[-1]) == example.answer
        return Reply("", is_over=True, reward=float(is_correct), is_correct=is_correct)

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return the answer."""
        return (example.answer,)


def judged(answer: str, turn: Turn) -> Reply:
    """Return 1 for the exact answer, otherwise partial credit up to 0.5 for its similarity.

    The similarity is twice the characters in matching blocks over all characters of both (Ratcliff
    and Obershelp, Dr. Dobb's Journal 1988): near misses get a learning signal.
    """
    given_answer = _answer_of(turn)
    is_correct = given_answer == answer
    near = SequenceMatcher(None, given_answer, answer, autojunk=False).ratio()
    return Reply("", is_over=True, reward=1.0 if is_correct else 0.5 * near, is_correct=is_correct)


def _answer_of(turn: Turn) -> str:
    """Return a turn without surrounding whitespace; a truncated turn counts as no answer."""
    return "" if turn.is_truncated else turn.text.strip()
