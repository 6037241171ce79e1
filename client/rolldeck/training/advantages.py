"""Advantages and token weights of trajectory groups.

All rules compare a sequence with the others that answered the same prompt, so no value network
is needed. A group with equal scores has zero advantages under every rule. The advantage of a
sequence without others is its score, as in Atropos' example trainer. A step on a batch from
:meth:`rolldeck.batches.Batch.padded`::

    own = {name: arrays[name] for name in ("lengths", "zero_advantage")}
    advantage = of_batch(arrays["scores"], arrays["group_index"], rule="grpo", **own)  # [B]
    weight = token_weights(trained, rule="grpo")  # [B, T], trained where labels are ≥ 0
    loss = -(weight * advantage[:, None] * ratio).sum()
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

EPSILON: Final = 1e-6
"""Added to the standard deviation in GRPO's division, to avoid a division by zero."""

Rule = Literal["grpo", "rloo", "dr_grpo"]
Scores = NDArray[np.floating[Any]]
Advantages = NDArray[np.float64]


def rloo(scores: Scores) -> Advantages:
    """Return each score less the mean of the others (REINFORCE leave-one-out).

    Kool, van Hoof & Welling 2019 ("Buy 4 REINFORCE samples, get a baseline for free!"); Ahmadian
    et al. 2024 ("Back to basics") for language models:

        A_i = r_i − 1/(S−1) · Σ_{j≠i} r_j  =  S/(S−1) · (r_i − mean(r))

    Args:
        scores: ``[S]`` r, finite.

    Returns:
        ``[S]``; they sum to zero. The score itself if S = 1; zeros if all scores are equal; not
        finite if the scores are too far apart for a float64.
    """
    if len(scores) < 2 or _alike(scores):
        return _without_others(scores)
    with np.errstate(all="ignore"):
        return _centred(scores) * (len(scores) / (len(scores) - 1))


def grpo(scores: Scores) -> Advantages:
    """Return each score less the group's mean, divided by the group's standard deviation.

    Shao et al. 2024 ("DeepSeekMath", section 4.1.2), with the population's standard deviation:

        A_i = (r_i − mean(r)) / (std(r) + 10⁻⁶)

    Args:
        scores: ``[S]`` r, finite.

    Returns:
        ``[S]`` of mean 0 and, where std(r) ≫ 10⁻⁶, of deviation 1. The score itself if S = 1;
        zeros if all scores are equal; not finite if the scores are too far apart for a float64.
    """
    if len(scores) < 2 or _alike(scores):
        return _without_others(scores)
    centred = _centred(scores)
    # Squared in units of the largest, which avoids an overflow.
    largest = float(np.abs(centred).max())
    with np.errstate(all="ignore"):
        deviation = largest * float(np.sqrt(np.mean((centred / largest) ** 2)))
        advantages: Advantages = centred / (deviation + EPSILON)
    return advantages


def dr_grpo(scores: Scores) -> Advantages:
    """Return each score less the group's mean.

    Liu et al. 2025 ("Understanding R1-Zero-like training", arXiv:2503.20783, section 3.2): without
    the division by the deviation, which gives the largest weight to groups that are almost all
    right or almost all wrong:

        A_i = r_i − mean(r)

    Args:
        scores: ``[S]`` r, finite.

    Returns:
        ``[S]``; they sum to zero. The score itself if S = 1; zeros if all scores are equal.
    """
    if len(scores) < 2 or _alike(scores):
        return _without_others(scores)
    return _centred(scores)


RULES: Final[Mapping[str, Callable[[Scores], Advantages]]] = MappingProxyType(
    {"rloo": rloo, "grpo": grpo, "dr_grpo": dr_grpo}
)


def of_batch(
    scores: Scores,
    group_index: NDArray[np.integer[Any]],
    *,
    rule: Rule,
    lengths: NDArray[np.integer[Any]] | None = None,
    zero_advantage: NDArray[np.bool_] | None = None,
) -> Advantages:
    """Return the advantages of a batch of groups, ``[B]``.

    Args:
        scores: ``[B]``, finite.
        group_index: ``[B]``, equal for sequences of the same prompt; in any order.
        rule: Name of the rule.
        lengths: ``[B]`` tokens. Sequences without tokens have the advantage 0, and the others are
            not compared with them. By default all have tokens.
        zero_advantage: ``[B]``: sequences whose advantage is 0. The others are compared with them.
    """
    written = np.ones(len(scores), dtype=np.bool_) if lengths is None else lengths > 0
    found = np.zeros(len(scores))
    for group in np.unique(group_index):
        members = (group_index == group) & written
        found[members] = RULES[rule](scores[members])
    if zero_advantage is not None:
        found[zero_advantage] = 0
    return found


def with_variance(
    scores: Scores,
    group_index: NDArray[np.integer[Any]],
    *,
    lengths: NDArray[np.integer[Any]] | None = None,
    zero_advantage: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return the sequences to train on, ``[B]``: those with tokens, of groups with an advantage.

    A group has one if its scores differ, or if it has one sequence, with a score other than 0. For
    the arguments see `of_batch`.
    """
    written = np.ones(len(scores), dtype=np.bool_) if lengths is None else lengths > 0
    advantages = of_batch(
        scores, group_index, rule="dr_grpo", lengths=lengths, zero_advantage=zero_advantage
    )
    found: NDArray[np.bool_] = written & np.isin(group_index, group_index[advantages != 0])
    return found


def token_weights(
    trained: NDArray[np.bool_], *, rule: Rule, longest_tokens: int = 0
) -> NDArray[np.float64]:
    """Return the weight of each token in the loss, ``[B, T]``; 0 for untrained tokens.

    GRPO takes the mean over a sequence's tokens, then over sequences (Shao et al. 2024, equation
    3), so a token of a long sequence counts less, and long wrong answers cost little. Dr. GRPO
    (Liu et al. 2025, section 3.2) and RLOO (Ahmadian et al. 2024, whose action is the whole
    sequence) sum over tokens; the sum is divided by a constant, which only scales it.

    Args:
        trained: ``[B, T]``, true for tokens written by the policy.
        rule: Rule of the advantages.
        longest_tokens: The constant: maximum length of an answer. By default T.
    """
    sequences, width = trained.shape
    if rule == "grpo":
        written = np.maximum(1, trained.sum(axis=1, keepdims=True))
    else:
        written = np.full((sequences, 1), longest_tokens or width)
    weights: NDArray[np.float64] = trained / (max(1, sequences) * written)
    return weights


def has_zero_variance(scores: Scores) -> bool:
    """Return whether at least two scores exist (``[S]``) and all are equal."""
    return len(scores) >= 2 and _alike(scores)


def _alike(scores: Scores) -> bool:
    # Not by the deviation: the mean of equal numbers may differ from them by a rounding error.
    return bool(scores.min() == scores.max())


def _without_others(scores: Scores) -> Advantages:
    """Return the advantages of scores that differ from no other one."""
    return np.array(scores, dtype=np.float64) if len(scores) == 1 else np.zeros(len(scores))


def _centred(scores: Scores) -> Advantages:
    wide = np.asarray(scores, dtype=np.float64)
    with np.errstate(all="ignore"):
        centred: Advantages = wide - wide.mean()
    return centred
