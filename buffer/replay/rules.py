"""Samplers that choose the chunks of a batch from their metadata.

All samplers draw without replacement, so a batch never holds a chunk twice. N is the number of
chunks to sample from, n the number requested.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
SamplerName = Literal["fifo", "uniform", "recency", "balanced", "weighted", "prioritized"]
# The array that a sampler reads in addition to the ids.
NEEDS: Final[dict[SamplerName, str]] = {
    "recency": "versions",
    "balanced": "environments",
    "weighted": "priorities",
    "prioritized": "priorities",
}
NEW_PRIORITY: Final = 1.0
# Above this number of candidates, reading all ids takes less time.
MOST_CANDIDATES: Final = 2048


class TooFewChunks(ValueError):
    """More chunks are requested than available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """Chunks to sample from; arrays that the sampler does not read may be omitted."""

    ids: NDArray[np.int64]
    """``[N]``, ascending: oldest chunk first."""
    versions: NDArray[np.int64] | None = None
    """``[N]``, oldest policy step in each chunk."""
    environments: NDArray[np.int64] | None = None
    """``[N]``, number of each chunk's environment."""
    priorities: Floats | None = None
    """``[N]``, greater than 0; NaN for chunks without a priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The sampled chunks."""

    ids: NDArray[np.int64]
    """``[n]``, in the order of drawing; for fifo, oldest first."""
    importance_weights: Floats
    """``[n]``, in 0 … 1; 1 for samplers without correction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerRule:
    """A sampler and its exponents."""

    name: SamplerName
    alpha: float = 0.6
    beta: float = 0.4

    def sample(self, chunks: Chunks, count: int, rng: np.random.Generator) -> Sample:
        """Sample `count` distinct chunks.

        Args:
            chunks: The chunks to sample from, with the array that :data:`NEEDS` names.
            count: n.
            rng: The only source of randomness; the same state gives the same sample.

        Raises:
            TooFewChunks: If n > N.
        """
        total = len(chunks.ids)
        if count > total:
            raise TooFewChunks(f"{count} chunks requested, {total} available")
        weights = np.ones(count)
        if self.name == "fifo":
            places = np.arange(count)
        elif self.name == "uniform":
            places = rng.choice(total, count, replace=False)
        elif self.name == "balanced":
            _, owners, sizes = np.unique(
                _given(chunks.environments), return_inverse=True, return_counts=True
            )
            quotas = fair_quotas(sizes, count, rng)
            drawn = [
                rng.choice(np.flatnonzero(owners == owner), quota, replace=False)
                for owner, quota in enumerate(quotas)
                if quota
            ]
            places = rng.permutation(np.concatenate(drawn))
        else:
            log_weights = self._log_weights(chunks)
            places = _drawn(log_weights, count, rng)
            if self.name == "prioritized":
                weights = importance_weights(log_weights, places, beta=self.beta)
        return Sample(ids=chunks.ids[places], importance_weights=weights)

    def _log_weights(self, chunks: Chunks) -> Floats:
        """Return the log of each chunk's unnormalised probability, ``[N]``."""
        if self.name == "recency":
            versions = _given(chunks.versions)
            # Each chunk's rank by version, then age: from 1 / N (oldest) to 1 (newest).
            ranks = np.empty(len(versions))
            ranks[np.argsort(versions, kind="stable")] = np.arange(1, len(versions) + 1)
            return self.alpha * np.log(ranks / len(versions))
        priorities = _given(chunks.priorities)
        known = ~np.isnan(priorities)
        if self.name == "weighted":
            return np.log(np.where(known, priorities, NEW_PRIORITY))
        # A new chunk gets the highest known priority (Schaul et al. 2015, algorithm 1).
        newest = priorities[known].max(initial=0.0) or NEW_PRIORITY
        return self.alpha * np.log(np.where(known, priorities, newest))


def candidate_ids(
    first: int, last: int, *, available: int, count: int, rng: np.random.Generator
) -> NDArray[np.int64] | None:
    """Return ids in random order, of which the first `count` available ones are a uniform sample.

    A sample then needs no list of all ids: a random order of an interval, restricted to the
    available ids in it, is a random order of these.

    Args:
        first: Smallest available id.
        last: Largest available id.
        available: Number of available ids in the interval, at least `count`.
        count: Number of ids to sample.
        rng: The only source of randomness.

    Returns:
        With a probability of more than 99.9 %, enough candidates. None if the available ids are
        so few of the interval that more than :data:`MOST_CANDIDATES` would be needed.
    """
    size = last - first + 1
    share = min(available / size, 1.0)
    # Four standard deviations of the number of available ids among the candidates.
    margin = 4 * sqrt(count * (1 - share)) + 4 * (1 - share)
    wanted = min(ceil((count + margin) / share), size)
    if wanted > MOST_CANDIDATES:
        return None
    return first + rng.choice(size, wanted, replace=False)


def _given(array: NDArray[Any] | None) -> NDArray[Any]:
    if array is None:
        raise ValueError("the sampler needs an array that was omitted")
    return array


def _drawn(log_weights: Floats, count: int, rng: np.random.Generator) -> Places:
    """Return `count` positions, drawn successively in proportion to their weights.

    The smallest of exponential variables with rates w is the i-th with probability w_i / Σw, and
    so on for the rest: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    Logarithms allow weights of any magnitude.
    """
    keys = np.log(rng.standard_exponential(len(log_weights))) - log_weights
    smallest = np.argpartition(keys, count - 1)[:count]
    return smallest[np.argsort(keys[smallest])]


def importance_weights(log_weights: Floats, places: Places, *, beta: float) -> Floats:
    """Return the importance weights of the drawn chunks, ``[n]``, with maximum 1.

    w_i = (N · P(i))^−beta / max w over the sample, P(i) = p_i^alpha / Σ p^alpha: Schaul et al.,
    "Prioritized experience replay", 2015, section 3.4.

    Args:
        log_weights: alpha · ln p of every chunk, ``[N]``; N and Σ cancel with the maximum.
        places: Positions of the drawn chunks, ``[n]``.
        beta: Strength of the correction: 0 none, 1 full.
    """
    logs = -beta * log_weights[places]
    weights: Floats = np.exp(logs - logs.max())
    return weights


def fair_quotas(sizes: NDArray[np.intp], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the number of chunks per environment, as equal as their `sizes` allow.

    Two environments differ by more than one only if the smaller gives all its chunks. Remainders
    are assigned at random.
    """
    quotas = np.zeros_like(sizes)
    while (left := count - int(quotas.sum())) > 0:
        able = np.flatnonzero(quotas < sizes)
        if left < len(able):
            quotas[rng.choice(able, left, replace=False)] += 1
        else:
            quotas[able] += np.minimum(left // len(able), (sizes - quotas)[able])
    return quotas
