"""Multi-turn task: compute with a calculator tool."""

import random
import re
import string
from dataclasses import dataclass
from typing import ClassVar

from rollouts.tasks.rules.task import Example, Reply, Turn

_CALL = re.compile(r"\?(\d{1,9})([+*])(\d{1,9})")
_ANSWER = re.compile(r"!(\d{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calculator:
    """Compute ``3*17+4;`` by asking ``?3*17``, reading ``=51;``, asking on, then answering ``!55``.

    A turn that is neither a question nor an answer ends the episode with reward 0.
    """

    digits: int = 2
    """Maximum digits of each number; the difficulty."""
    calls: int = 2
    """Maximum number of questions."""
    alphabet: ClassVar[str] = string.digits + "+*=;?!"

    @property
    def name(self) -> str:
        """Kind and difficulty."""
        return f"calculator-{self.digits}"

    @property
    def most_turns(self) -> int:
        """Questions and the answer."""
        return self.calls + 1

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return a product and a sum of random numbers."""
        a, b, c = (random.randrange(1, 10**self.digits) for _ in range(3))
        return Example(key=key, prompt=f"{a}*{b}+{c};", answer=str(a * b + c))

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Compute the question, or score the answer."""
        turn = turns[-1]
        text = "" if turn.is_truncated else turn.text.strip()
        answer = _ANSWER.fullmatch(text)
        if answer:
            is_correct = answer[1] == example.answer
            return Reply("", is_over=True, reward=float(is_correct), is_correct=is_correct)
        call = _CALL.fullmatch(text)
        if call is None or len(turns) > self.calls:
            return Reply("", is_over=True, reward=0.0)
        first, sign, second = int(call[1]), call[2], int(call[3])
        result = first + second if sign == "+" else first * second
        return Reply(f"={result};", is_over=False, reward=0.0)

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return both questions and the answer, or as many questions as are allowed."""
        product, _, rest = example.prompt.removesuffix(";").partition("+")
        first, _, second = product.partition("*")
        questions = (f"?{product}", f"?{int(first) * int(second)}+{rest}")
        return (*questions[: self.calls], f"!{example.answer}")
