"""A typical environment for `verifiers`, here for its stand-in."""

from typing import Any

from verifiers.envs.environment import Environment, Rubric
from verifiers.types import Message


def rows(first: int, count: int, length: int = 2) -> list[dict[str, Any]]:
    """Return problems; the answer is their letter."""
    letters = ["abcdefghij"[(first + number) % 10] for number in range(count)]
    return [
        {"prompt": [{"role": "user", "content": letter * length}], "answer": letter}
        for letter in letters
    ]


def letters_share(completion: list[Message], answer: str, **_: Any) -> float:
    """Return the share of the letter in the first answer."""
    text = completion[0].content
    return float(text.count(answer) / max(1, len(text)))


def go_on(messages: list[Message]) -> list[Message]:
    """Return the next user message."""
    del messages
    return [Message("user", "again")]


def rewrite(messages: list[Message]) -> list[Message]:
    """Rewrite the last answer, as some environments do with its reasoning."""
    messages[-1].content = "z"
    return go_on(messages)


def load_environment(
    *, turns: int = 1, length: int = 2, rewrites: bool = False, tools: bool = False
) -> Environment:
    """Return the environment."""
    return Environment(
        dataset=rows(0, 5, length),
        eval_dataset=rows(5, 3, length),
        rubric=Rubric([letters_share]),
        max_turns=turns,
        reply=rewrite if rewrites else go_on,
        tool_defs=["a tool"] if tools else None,
    )
