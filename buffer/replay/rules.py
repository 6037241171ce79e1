"""Choose which chunks a batch takes, from their metadata only.

Every sampler draws without replacement, so a batch never holds a chunk twice. N is the number
of chunks that may be sampled, n the number wanted.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
SamplerName = Literal["fifo", "uniform", "recency", "balanced", "weighted", "prioritized"]
# What a sampler reads of each chunk beside its id.
NEEDS: Final[dict[SamplerName, str]] = {
    "recency": "versions",
    "balanced": "environments",
    "weighted": "priorities",
    "prioritized": "priorities",
}
NEW_PRIORITY: Final = 1.0


class TooFewChunks(ValueError):
    """More chunks are wanted than there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """What may be sampled; arrays that the sampler does not read may be left out."""

    ids: NDArray[np.int64]
    """``[N]``, rising: the oldest chunk first."""
    versions: NDArray[np.int64] | None = None
    """``[N]``, the oldest policy step in each chunk."""
    environments: NDArray[np.int64] | None = None
    """``[N]``, a number for each environment."""
    priorities: Floats | None = None
    """``[N]``, greater than 0; NaN for a chunk that nobody has given one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was chosen."""

    ids: NDArray[np.int64]
    """``[n]``, in the order of drawing (fifo: oldest first)."""
    importance_weights: Floats
    """``[n]``, in 0 … 1; 1 wherever the sampler corrects nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerRule:
    """A sampler and its exponents."""

    name: SamplerName
    alpha: float = 0.6
    beta: float = 0.4

    def sample(self, chunks: Chunks, count: int, rng: np.random.Generator) -> Sample:
        """Return `count` different chunks.

        Args:
            chunks: What may be sampled, with the array that :data:`NEEDS` names.
            count: n.
            rng: The only source of chance: the same one draws the same sample.

        Raises:
            TooFewChunks: If n > N.
        """
        total = len(chunks.ids)
        if count > total:
            raise TooFewChunks(f"{count} chunks are wanted, {total} may be sampled")
        weights = np.ones(count)
        if self.name == "fifo":
            places = np.arange(count)
        elif self.name == "uniform":
            places = rng.choice(total, count, replace=False)
        elif self.name == "balanced":
            places = _balanced(_given(chunks.environments), count, rng)
        else:
            log_weights = self._log_weights(chunks)
            places = _drawn(log_weights, count, rng)
            if self.name == "prioritized":
                weights = importance_weights(log_weights, places, beta=self.beta)
        return Sample(ids=chunks.ids[places], importance_weights=weights)

    def _log_weights(self, chunks: Chunks) -> Floats:
        """Return the logarithm of what each chunk's chance is proportional to, ``[N]``."""
        if self.name == "recency":
            return self.alpha * np.log(_ranks(_given(chunks.versions)))
        priorities = _given(chunks.priorities)
        known = ~np.isnan(priorities)
        if self.name == "weighted":
            return np.log(np.where(known, priorities, NEW_PRIORITY))
        # A new chunk is as urgent as the most urgent one (Schaul et al. 2015, algorithm 1).
        newest = priorities[known].max(initial=0.0) or NEW_PRIORITY
        return self.alpha * np.log(np.where(known, priorities, newest))


def _given(array: NDArray[Any] | None) -> NDArray[Any]:
    if array is None:
        raise ValueError("the sampler reads an array that was left out")
    return array


def _ranks(versions: NDArray[np.int64]) -> Floats:
    """Return each chunk's place by version and then by age, the oldest 1 / N, the newest 1."""
    ranks = np.empty(len(versions))
    ranks[np.argsort(versions, kind="stable")] = np.arange(1, len(versions) + 1)
    return ranks / len(versions)


def _drawn(log_weights: Floats, count: int, rng: np.random.Generator) -> Places:
    """Return `count` places, drawn one after the other in proportion to their weights.

    The smallest of exponential variables with rates w is the i-th with probability w_i / Σw, and
    so on for the rest: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    Logarithms let weights be of any size.
    """
    keys = np.log(rng.standard_exponential(len(log_weights))) - log_weights
    smallest = np.argpartition(keys, count - 1)[:count]
    return smallest[np.argsort(keys[smallest])]


def importance_weights(log_weights: Floats, places: Places, *, beta: float) -> Floats:
    """Return how much each drawn chunk should count, ``[n]``, the largest 1.

    w_i = (N · P(i))^−beta / max w over the sample, P(i) = p_i^alpha / Σ p^alpha: Schaul et al.,
    "Prioritized experience replay", 2015, section 3.4.

    Args:
        log_weights: alpha · ln p of every chunk, ``[N]``; N and Σ cancel with the maximum.
        places: Of the drawn chunks, ``[n]``.
        beta: 0 corrects nothing, 1 the whole bias.
    """
    logs = -beta * log_weights[places]
    weights: Floats = np.exp(logs - logs.max())
    return weights


def _balanced(environments: NDArray[np.int64], count: int, rng: np.random.Generator) -> Places:
    _, owners, sizes = np.unique(environments, return_inverse=True, return_counts=True)
    quotas = fair_quotas(sizes, count, rng)
    drawn = [
        rng.choice(np.flatnonzero(owners == owner), quota, replace=False)
        for owner, quota in enumerate(quotas)
        if quota
    ]
    return rng.permutation(np.concatenate(drawn))


def fair_quotas(sizes: NDArray[np.intp], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return how many to take of each environment: as even as their `sizes` allow.

    Two environments differ by more than one only if the one with less gives all it has. Who
    gets the odd one is chance.
    """
    quotas = np.zeros_like(sizes)
    while (left := count - int(quotas.sum())) > 0:
        able = np.flatnonzero(quotas < sizes)
        if left < len(able):
            quotas[rng.choice(able, left, replace=False)] += 1
        else:
            quotas[able] += np.minimum(left // len(able), (sizes - quotas)[able])
    return quotas
