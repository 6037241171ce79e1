"""Sequences of a batch as rows of tokens, for trainers that pad or pack them on their own."""

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from rolldeck.batches import Batch
from rolldeck.errors import InvalidMessageError
from rolldeck.groups import GroupArrays

Tokens = NDArray[np.int64]
Logprobs = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A sequence of T tokens.

    Attributes:
        tokens: ``[T]``.
        trained: ``[T]``: whether the policy sampled the token; never the first token, because no
            token predicts it, and no token of a sequence whose advantage is set to zero.
        logprobs: ``[T]`` log probabilities under the weights that sampled the tokens; 0 where
            untrained.
        score: Reward of the sequence.
        advantage: Advantage that the group contains for the sequence, if any.
        group: Position of the group in the batch.
        policy_step: Oldest version that sampled the group, if recorded.
    """

    tokens: Tokens
    trained: NDArray[np.bool_]
    logprobs: Logprobs
    score: float
    advantage: float | None
    group: int
    policy_step: int | None

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens before the first trained one; all but the last if none is trained."""
        return int(self.trained.argmax()) if self.trained.any() else len(self.tokens) - 1


def token_rows(
    batch: Batch, *, vocabulary: int | None = None, temperature: float | None = None
) -> list[TokenRow]:
    """Return the sequences of a batch in the order of its groups, without those of no tokens.

    Args:
        batch: A batch of groups.
        vocabulary: Number of tokens of the trained model; unchecked if None.
        temperature: Temperature of all sequences that state one; unchecked if None.

    Raises:
        InvalidMessageError: If a group cannot be trained on token by token; the text names the
            group and its field.
    """
    rows = []
    for place, stored in enumerate(batch.group_arrays):
        group = stored.without_unusable_rows()
        path = f"groups[{place}] of batch {batch.head.ordinal}"
        _check(group, path, vocabulary)
        starts = np.cumsum(group.rows["tokens"].lengths)[:-1]
        columns = [
            np.split(group.rows[name].values, starts)
            for name in ("tokens", "masks", "inference_logprobs")
        ]
        advantages = _advantages(group, path)
        overrides = group.overrides
        if temperature is not None:
            stated = overrides.temperature
            others = np.flatnonzero(~np.isnan(stated) & (stated != np.float32(temperature)))
            if len(others):
                raise InvalidMessageError(
                    f"{path}, temperature: sequence {others[0]} was sampled with "
                    f"{stated[others[0]]:g}, but temperature is {temperature:g}"
                )
        for index, (tokens, masks, logprobs) in enumerate(zip(*columns, strict=True)):
            trained = (masks >= 0) & ~overrides.zero_advantage[index]
            if not len(tokens):
                continue
            if len(tokens) < 2:
                counts = f"sequence {index} has {len(tokens)}, at least 2 required"
                raise InvalidMessageError(f"{path}, tokens: {counts}")
            if trained[0]:
                problem = "is trained, but no token predicts it"
                raise InvalidMessageError(
                    f"{path}, masks: the first token of sequence {index} {problem}"
                )
            rows.append(
                TokenRow(
                    tokens=tokens.astype(np.int64),
                    trained=trained,
                    logprobs=np.where(trained, logprobs, 0.0).astype(np.float32),
                    score=float(group.scores[index]),
                    advantage=None if advantages is None else advantages[index],
                    group=place,
                    policy_step=group.policy_step,
                )
            )
    return rows


def _check(group: GroupArrays, path: str, vocabulary: int | None) -> None:
    tokens = group.rows["tokens"]
    if "inference_logprobs" not in group.rows:
        raise InvalidMessageError(
            f"{path}, inference_logprobs: missing; the importance ratio requires them"
        )
    for name in ("masks", "inference_logprobs"):
        if not np.array_equal(group.rows[name].lengths, tokens.lengths):
            raise InvalidMessageError(f"{path}, {name}: rows and tokens differ in length")
    if len(group.scores) != group.sequences:
        counts = f"{len(group.scores)} scores for {group.sequences} sequences"
        raise InvalidMessageError(f"{path}, scores: {counts}")
    if "images" in group.json and any(msgspec.json.decode(group.json["images"]) or ()):
        raise InvalidMessageError(f"{path}, images: only text can be trained on")
    highest = int(tokens.values.max(initial=0))
    if vocabulary is not None and (highest >= vocabulary or tokens.values.min(initial=0) < 0):
        raise InvalidMessageError(
            f"{path}, tokens: {highest} is outside the {vocabulary} tokens of the model"
        )


def _advantages(group: GroupArrays, path: str) -> list[float] | None:
    if "advantages" not in group.rows:
        return None
    values, lengths = group.rows["advantages"]
    rows = np.split(values, np.cumsum(lengths)[:-1])
    if any(len(row) and np.ptp(row) != 0 for row in rows):
        raise InvalidMessageError(
            f"{path}, advantages: must be one number per sequence; they differ between tokens"
        )
    return [float(row[0]) if len(row) else 0.0 for row in rows]
