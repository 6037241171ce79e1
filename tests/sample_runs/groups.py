"""Scored groups in Atropos' JSON, built from problems, with bytes as tokens."""

from datetime import datetime
from itertools import groupby
from typing import Any, Final

import msgspec
import numpy as np

from buffer.ingest.schemas.groups import Group
from buffer.ingest.schemas.groups_json import decode_group
from rolldeck.groups import IGNORED
from tests.sample_runs.texts import Messages, Problem

LONGEST_TOKENS: Final = 24_576
PUSH_SECONDS: Final = 0.4
"""Time from the last reward of a group to its arrival."""
MOST_SPANS: Final = 200
OWN: Final = "assistant"


def scored(problem: Problem, *, random: np.random.Generator, **fields: Any) -> Group:
    """Return a group of all answers to a problem; see `group_content`."""
    return decode_group(msgspec.json.encode(group_content(problem, random=random, **fields)))


def group_content(
    problem: Problem,
    *,
    random: np.random.Generator,
    env_id: int | None = None,
    policy_step: int | None = None,
    has_advantages: bool = False,
    more: dict[str, Any] | None = None,
    ended_at: datetime | None = None,
) -> dict[str, Any]:
    """Return a group of all answers to a problem, in Atropos' JSON.

    Each byte of the conversation is a token. The policy's own tokens have log probabilities and a
    mask. `has_advantages` sets their advantages to the score less the group's mean, divided by its
    standard deviation. With `ended_at`, the time of the last answer, each answer has timed spans.
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
    if ended_at is not None:
        content["spans"] = _spans(rows, ended_at.timestamp() - PUSH_SECONDS)
    if has_advantages:
        content["advantages"] = _advantages(rows, problem.scores)
    return content


def _tokens(messages: Messages) -> list[tuple[int, bool]]:
    """Return each token of a conversation with whether the policy wrote it."""
    found: list[tuple[int, bool]] = []
    for message in messages:
        content = message["content"]
        text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        found += [(byte, message["role"] == OWN) for byte in text.encode()]
    return found[:LONGEST_TOKENS]


def _spans(rows: list[list[tuple[int, bool]]], ended: float) -> list[list[dict[str, Any]]]:
    """Return the spans of conversations that start together and are over at `ended`."""
    parts = [_parts(row) for row in rows]
    began = ended - max(row[-1][2] for row in parts)
    return [
        [
            {"name": name, "start": round(began + start, 3), "end": round(began + end, 3)}
            for name, start, end in row[:MOST_SPANS]
        ]
        for row in parts
    ]


def _parts(row: list[tuple[int, bool]]) -> list[tuple[str, float, float]]:
    """Return the timed parts of a conversation; a token of the policy takes 4 ms."""
    parts: list[tuple[str, float, float]] = []
    at = 0.0
    for own, turn in groupby(row, key=lambda one: one[1]):
        took = 0.004 * len(list(turn)) if own else 0.15
        if own or parts:
            parts.append(("generate" if own else "env step", at, at + took))
            at += took
    return [*parts, ("reward", at, at + 0.2)]


def _logprobs(row: list[tuple[int, bool]], random: np.random.Generator) -> list[float]:
    """Return natural logs: most tokens are nearly certain, one in eight is uncertain."""
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
