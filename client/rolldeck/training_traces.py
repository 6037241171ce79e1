"""Trajectory groups from training traces of OpenEnv (`TrainingTrace`, schema 1).

    group = group_of_traces([trace.model_dump() for trace in traces], rewards)
    sender.push_groups([group])

A turn continues the sequence whose tokens its prompt starts with, and otherwise begins another one.
Each token is trained on at most once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from rolldeck.groups import IGNORED, InvalidGroupError
from rolldeck.structs import message_and_path

UNTRAINED_LOGPROB: Final = 1.0
"""Log probability of a token that the policy did not write, as in Atropos."""

Token = Annotated[int, Meta(ge=0, lt=1 << 31)]
Logprob = Annotated[float, Meta(ge=-1e30, le=0)]


class TrainingTurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One generation: a prompt of P tokens and a completion of C tokens."""

    node_id: Annotated[str, Meta(min_length=1)]
    prompt_token_ids: Annotated[list[Token], Meta(min_length=1)]
    completion_token_ids: list[Token]
    per_token_logps: list[Logprob]
    """Of the completion, ``[C]``."""
    loss_mask: list[Literal[0, 1]]
    """``[P + C]``; 1 for tokens to train on, all in the completion."""
    request: dict[str, Any] = {}
    response: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


class TrainingTrace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The generations of one rollout."""

    schema_version: Literal[1] = 1
    turns: Annotated[list[TrainingTurn], Meta(min_length=1)]


@dataclass(slots=True)
class _Sequence:
    """Columns ``[T]`` of a sequence in progress."""

    tokens: list[int]
    masks: list[int]
    logprobs: list[float]

    def add(self, tokens: Sequence[int]) -> None:
        """Append tokens that are not trained on."""
        self.tokens += tokens
        self.masks += [IGNORED] * len(tokens)
        self.logprobs += [UNTRAINED_LOGPROB] * len(tokens)

    def complete(self, turn: TrainingTurn) -> None:
        """Append the completion of a turn."""
        start = len(self.tokens)
        self.add(turn.completion_token_ids)
        masks = turn.loss_mask[len(turn.prompt_token_ids) :]
        for at, is_trained in enumerate(masks, start):
            if is_trained:
                self.masks[at] = self.tokens[at]
                self.logprobs[at] = turn.per_token_logps[at - start]


def group_of_traces(
    traces: Sequence[Mapping[str, Any]],
    rewards: Sequence[float],
    *,
    version: tuple[int, int] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return the group of several rollouts of one task, for `push_groups`.

    Every sequence of a rollout has its reward, and ``overrides`` with the rollout's index.

    Args:
        traces: The fields of each `TrainingTrace`.
        rewards: Reward of each rollout.
        version: Epoch and step of the policy, if known.
        **fields: Further fields of the group, such as ``env_id``.

    Raises:
        InvalidGroupError: If a trace is invalid, or no token is trained on; `field` names the
            place.
    """
    if len(traces) != len(rewards):
        raise InvalidGroupError("scores", f"{len(rewards)} rewards for {len(traces)} traces")
    group: dict[str, Any] = {"tokens": [], "masks": [], "inference_logprobs": []}
    scores, overrides = list[float](), list[dict[str, Any]]()
    for place, (fields_of_trace, reward) in enumerate(zip(traces, rewards, strict=True)):
        for sequence in _sequences(_checked(f"traces.{place}", fields_of_trace)):
            group["tokens"].append(sequence.tokens)
            group["masks"].append(sequence.masks)
            group["inference_logprobs"].append(sequence.logprobs)
            scores.append(reward)
            overrides.append({"rollout": place})
    if not scores:
        raise InvalidGroupError("traces", "no token is trained on")
    labels = {} if version is None else {"epoch": version[0], "policy_step": version[1]}
    return group | {"scores": scores, "overrides": overrides} | labels | fields


def _checked(field: str, given: Mapping[str, Any]) -> TrainingTrace:
    try:
        trace = msgspec.convert(dict(given), TrainingTrace)
    except msgspec.ValidationError as error:
        message, path = message_and_path(error)
        raise InvalidGroupError(field + path, message) from error
    named = set[str]()
    for place, turn in enumerate(trace.turns):
        at = f"{field}.turns[{place}]"
        prompt, completion = len(turn.prompt_token_ids), len(turn.completion_token_ids)
        if len(turn.per_token_logps) != completion:
            count = len(turn.per_token_logps)
            raise InvalidGroupError(f"{at}.per_token_logps", f"{count} for {completion} tokens")
        if len(turn.loss_mask) != prompt + completion:
            count = len(turn.loss_mask)
            raise InvalidGroupError(f"{at}.loss_mask", f"{count} for {prompt + completion} tokens")
        if any(turn.loss_mask[:prompt]):
            raise InvalidGroupError(f"{at}.loss_mask", "is 1 in the prompt")
        if turn.node_id in named:
            raise InvalidGroupError(f"{at}.node_id", f"{turn.node_id!r} occurs twice")
        named.add(turn.node_id)
    return trace


def _sequences(trace: TrainingTrace) -> list[_Sequence]:
    """Return the sequences with trained tokens."""
    sequences: list[_Sequence] = []
    for turn in trace.turns:
        prompt = turn.prompt_token_ids
        continued = [one for one in sequences if prompt[: len(one.tokens)] == one.tokens]
        if continued:
            sequence = max(continued, key=lambda one: len(one.tokens))
        else:
            sequence = _Sequence([], [], [])
            sequences.append(sequence)
        sequence.add(prompt[len(sequence.tokens) :])
        sequence.complete(turn)
    return [one for one in sequences if any(mask != IGNORED for mask in one.masks)]
