"""Turn problems into scored groups as an environment pushes them: bytes for tokens."""

from typing import Any, Final

import msgspec
import numpy as np

from buffer import wire
from config.seed.texts import Messages, Problem
from rolldeck.groups import IGNORED

LONGEST_TOKENS: Final = 24_576
OWN: Final = "assistant"


def scored(
    problem: Problem,
    *,
    random: np.random.Generator,
    env_id: int | None = None,
    policy_step: int | None = None,
    has_advantages: bool = False,
    more: dict[str, Any] | None = None,
) -> wire.Group:
    """Return a group of all answers to a problem, in Atropos' JSON.

    Each byte of the conversation is a token. Those that the policy wrote have log probabilities
    and a mask; `has_advantages` gives them the score less the group's mean, over its deviation.
    """
    rows = [_tokens(problem.prompt + answer) for answer in problem.answers]
    tokens = [[token for token, _ in row] for row in rows]
    masks = [[token if own else IGNORED for token, own in row] for row in rows]
    content: dict[str, Any] = {
        "tokens": tokens,
        "masks": masks,
        "scores": problem.scores,
        "inference_logprobs": [_logprobs(row, random) for row in rows],
        "messages": [problem.prompt + answer for answer in problem.answers],
        "generation_params": {"temperature": 1.0, "top_p": 1.0},
        "env_id": env_id,
        **(more or {}),
    }
    if policy_step is not None:
        content["policy_step"] = policy_step
    if has_advantages:
        content["advantages"] = _advantages(rows, problem.scores)
    return wire.decode_group(msgspec.json.encode(content))


def _tokens(messages: Messages) -> list[tuple[int, bool]]:
    """Return each token of a conversation, and whether the policy wrote it."""
    found: list[tuple[int, bool]] = []
    for message in messages:
        said = message["content"]
        text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
        found += [(byte, message["role"] == OWN) for byte in text.encode()]
    return found[:LONGEST_TOKENS]


def _logprobs(row: list[tuple[int, bool]], random: np.random.Generator) -> list[float]:
    """Return natural logs: most tokens are certain, one in eight is a choice."""
    is_choice = random.random(len(row)) < 1 / 8
    drawn = np.where(
        is_choice, random.exponential(1.1, len(row)), random.exponential(0.02, len(row))
    )
    own = np.array([own for _, own in row])
    return [float(value) for value in np.round(np.where(own, -drawn, 0.0), 4)]


def _advantages(rows: list[list[tuple[int, bool]]], scores: list[float]) -> list[list[float]]:
    values = np.array(scores)
    spread = values.std() or 1.0
    each = np.round((values - values.mean()) / spread, 4)
    return [
        [float(value) if own else 0.0 for _, own in row]
        for row, value in zip(rows, each, strict=True)
    ]
