"""Sample the next token of many sequences at once, with individual parameters and seeds."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

GREEDY: Final = 1e-5
"""Temperature up to which the most likely token is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling parameters of one answer."""

    max_tokens: int = 64
    temperature: float = 1.0
    top_p: float = 1.0
    """Cumulative probability of the most likely tokens that may be sampled."""
    top_k: int = 0
    """Number of most likely tokens that may be sampled; 0 for all."""
    stop_tokens: frozenset[int] = frozenset()
    """Tokens that end the answer; the stop token is its last token."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; its last token is the one that completes the text."""
    seed: int = 0

    @property
    def is_greedy(self) -> bool:
        """Whether all answers to a prompt are the same."""
        return self.temperature <= GREEDY


def uniforms(seeds: NDArray[np.uint64], places: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each pair of seed and place, ``[N]``.

    Equal pairs give equal numbers, independent of the other pairs. Source: SplitMix64, Steele, Lea
    and Flood, OOPSLA 2014.
    """
    with np.errstate(over="ignore"):
        mixed = _mix(seeds + np.uint64(0x9E3779B97F4A7C15) * (places + np.uint64(1)))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(slots=True, kw_only=True)
class Rules:
    """Sampling parameters of S sequences as columns."""

    temperature: Tensor
    """``[S, 1]`` float32, never 0."""
    top_p: Tensor
    """``[S, 1]`` float32."""
    top_k: Tensor
    """``[S, 1]`` int64; the vocabulary size means no limit."""
    is_limited: bool
    """Whether any sequence uses top-p or top-k."""
    is_greedy: Tensor
    """``[S]`` bool."""
    any_greedy: bool
    """Whether any sequence takes the most likely token."""

    @classmethod
    def of(cls, params: list[SamplingParams], *, vocab_size: int, device: torch.device) -> "Rules":
        """Return the columns of a list of parameters."""

        def column(values: list[float], kind: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=kind, device=device)[:, None]

        return cls(
            temperature=column([max(one.temperature, GREEDY) for one in params], torch.float32),
            top_p=column([one.top_p for one in params], torch.float32),
            top_k=column([one.top_k or vocab_size for one in params], torch.int64),
            is_limited=any(one.top_p < 1 or one.top_k for one in params),
            is_greedy=torch.tensor([one.is_greedy for one in params], device=device),
            any_greedy=any(one.is_greedy for one in params),
        )


def draw(logits: Tensor, rules: Rules, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens at `points` of the cumulative distributions, and their logprobs, ``[S]``.

    A logprob is taken at the sequence's temperature, before top-k and top-p, as a policy gradient
    needs it. For greedy sequences it is taken at temperature 1.

    Args:
        logits: ``[S, vocab]``.
        rules: Sampling parameters of the S sequences.
        points: ``[S]`` in [0, 1).
    """
    logprobs = torch.log_softmax(logits.float() / rules.temperature, dim=-1)
    probabilities = logprobs.exp()
    if rules.is_limited:
        probabilities = _limited(probabilities, rules)
    reached = probabilities.cumsum(dim=-1)
    # Relative to the remaining mass, which limits and rounding reduce below 1.
    target = points.to(reached.dtype)[:, None] * reached[:, -1:]
    tokens = torch.searchsorted(reached, target, right=True).clamp_(max=logits.shape[-1] - 1)
    chosen = logprobs.gather(-1, tokens).squeeze(-1)
    tokens = tokens.squeeze(-1)
    if rules.any_greedy:
        likeliest = logits.argmax(dim=-1)
        plain = torch.log_softmax(logits.float(), dim=-1)
        tokens = torch.where(rules.is_greedy, likeliest, tokens)
        chosen = torch.where(
            rules.is_greedy, plain.gather(-1, likeliest[:, None]).squeeze(-1), chosen
        )
    return tokens, chosen


def _limited(probabilities: Tensor, rules: Rules) -> Tensor:
    """Return the probabilities ``[S, vocab]``, 0 for tokens that may not be sampled."""
    ordered, places = probabilities.sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    ranks = torch.arange(ordered.shape[-1], device=ordered.device)
    # The most likely token is always kept.
    kept = (before < rules.top_p) & (ranks < rules.top_k) | (ranks == 0)
    return torch.zeros_like(probabilities).scatter(-1, places, ordered * kept)
