"""Problems and answers of sample groups, and hostile text."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A prompt with scored answers."""

    prompt: Messages
    answers: list[Messages]
    scores: list[float]


def word_problem(random: np.random.Generator, answers: int) -> Problem:
    """Return a word problem in arithmetic; some answers fail in the last step."""
    rows, each, sold = (int(n) for n in random.integers(3, 30, 3))
    right = rows * each - sold
    question = (
        f"A nursery has {rows} rows of {each} seedlings and sells {sold} of them. "
        "How many are left? End with the number in \\boxed{}."
    )
    texts, scores = [], []
    for _ in range(answers):
        is_right = bool(random.random() < 0.55)
        result = right if is_right else right + int(random.choice([-10, -1, 1, 10]))
        texts.append(
            f"<think>{rows} rows of {each}: multiply, then subtract the {sold} sold.</think>\n"
            f"1. There are ${rows} \\times {each} = {rows * each}$ seedlings.\n"
            f"2. After selling {sold}, ${rows * each} - {sold} = {result}$ are left.\n\n"
            f"**Answer:** $\\boxed{{{result}}}$"
        )
        scores.append(1.0 if is_right else 0.0)
    return _one_turn(question, texts, scores)


def code_problem(random: np.random.Generator, answers: int) -> Problem:
    """Return a small function to write; the score is the share of passed tests."""
    step = int(random.integers(2, 9))
    question = f"Write `every(items)` that returns each {step}th item of a list, from the first."
    bodies = [
        (f"    return items[::{step}]", 1.0),
        (f"    return items[{step - 1}::{step}]", 0.25),
        (f"    return [x for i, x in enumerate(items) if i % {step} == 0]", 1.0),
        (f"    return [items[i] for i in range(0, len(items), {step + 1})]", 0.0),
    ]
    chosen = [bodies[int(random.integers(len(bodies)))] for _ in range(answers)]
    texts = [
        f"A slice with a step selects them:\n\n```python\ndef every(items):\n{body}\n```"
        for body, _ in chosen
    ]
    return _one_turn(question, texts, [score for _, score in chosen])


def tool_problem(random: np.random.Generator, answers: int) -> Problem:
    """Return a question of two turns: a tool call, its result, and an answer."""
    city = str(random.choice(["Oslo", "Lagos", "Quito", "Kyoto", "Tromsø", "São Paulo"]))
    degrees = int(random.integers(-12, 34))
    prompt: Messages = [
        {"role": "system", "content": "You may call weather(city). Answer in one sentence."},
        {"role": "user", "content": f"Do I need a coat in {city} today?"},
    ]
    conversations, scores = [], []
    for _ in range(answers):
        is_right = bool(random.random() < 0.6)
        is_suitable = (degrees < 12) == is_right
        word = "Yes, take" if is_suitable else "No, leave"
        call = {"name": "weather", "arguments": json.dumps({"city": city, "unit": "celsius"})}
        conversations.append(
            [
                {
                    "role": "assistant",
                    "content": "I look up the temperature.",
                    "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
                },
                {
                    "role": "tool",
                    "tool_call_id": "call_1",
                    "content": json.dumps({"city": city, "celsius": degrees}),
                },
                {"role": "assistant", "content": f"{word} the coat: it is {degrees} °C in {city}."},
            ]
        )
        scores.append(1.0 if is_right else float(random.choice([-0.5, 0.0])))
    return Problem(prompt=prompt, answers=conversations, scores=scores)


def reversal(random: np.random.Generator, answers: int, *, letters: int, skill: float) -> Problem:
    """Return a word to reverse, with answers that are right with probability `skill`."""
    word = "".join(chr(97 + int(n)) for n in random.integers(0, letters, 3))
    texts, scores = [], []
    for _ in range(answers):
        is_right = bool(random.random() < skill)
        wrong = word[::-1][:2] + chr(97 + int(random.integers(0, letters)))
        texts.append(word[::-1] if is_right else wrong)
        scores.append(float(texts[-1] == word[::-1]))
    return _one_turn(f"{word}=", texts, scores)


PROBLEMS: Final[dict[str, Callable[[np.random.Generator, int], Problem]]] = {
    "gsm8k": word_problem,
    "code-exec": code_problem,
    "tool-use": tool_problem,
}

PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
MARKUP: Final = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)><b id=hostile>b</b>"
)
DECEPTIVE: Final = (
    "pay \u202egnp.exe\u202c and \u2066left\u2069, zero\u200bwidth, \ufeffmark, Кирилл"
)
TERMINAL: Final = "\x1b[31mred\x1b[0m \x1b]0;title\x07 ding\x07 \x00 nul \x7f del"
LONG: Final = "unbroken" * 2_500


def hostile_problems() -> list[Problem]:
    """Return answers that are harmful when shown as anything but plain text."""
    prompt = "Print what you find in the file. </textarea><script>alert('prompt')</script>"
    pictures: Messages = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": f"What is this? {MARKUP}"},
                {"type": "image_url", "image_url": {"url": PIXEL}},
            ],
        }
    ]
    answers = [
        _assistant(text) for text in (MARKUP, DECEPTIVE, TERMINAL.replace("\x00", "\u2400"), LONG)
    ]
    javascript = "[click](javascript:alert(1)) ![x](https://example.invalid/spy.png) {{7*7}} ${7*7}"
    return [
        _one_turn(
            prompt, [MARKUP, DECEPTIVE, TERMINAL.replace("\x00", ""), LONG], [0.0, 1.0, 0.5, -1.0]
        ),
        Problem(prompt=pictures, answers=answers, scores=[1.0, 0.0, 0.0, 0.25]),
        _one_turn(javascript, [javascript, "{}", "null", " "], [0.1, 0.2, 0.3, 0.4]),
    ]


def _one_turn(question: str, texts: list[str], scores: list[float]) -> Problem:
    return Problem(
        prompt=[{"role": "user", "content": question}],
        answers=[_assistant(text) for text in texts],
        scores=scores,
    )


def _assistant(text: str) -> Messages:
    return [{"role": "assistant", "content": text}]
