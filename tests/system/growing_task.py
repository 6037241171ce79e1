"""A task whose problem i has a prompt of i + 1 letters and answers of i + 1 turns."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rollouts.tasks.rules.task import Example, Mode, Reply, Turn

ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing:
    """Rows in another order in each pass, as those of a data set."""

    most_turns: ClassVar[int] = ROWS
    name: ClassVar[str] = "growing"
    alphabet: ClassVar[str] = "p. "

    def rows(self, mode: Mode) -> int:
        del mode
        return ROWS

    def problem(self, number: int, *, mode: Mode, seed: int) -> Example:
        turn, place = divmod(number, ROWS)
        row = int(np.random.default_rng([seed, turn]).permutation(ROWS)[place])
        return Example(key=f"{mode}/{row}", prompt="p" * (row + 1), answer=str(row + 1))

    def example(self, random: object, *, key: str) -> Example:
        raise NotImplementedError(key)

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        is_over = len(turns) >= int(example.answer)
        return Reply("" if is_over else ".", is_over=is_over, reward=float(is_over))

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        return ("p",) * int(example.answer)
