"""Status of an environment in the Atropos API: share, queue and group size.

Source: atroposlib 0.4.0, `api/server.py`, `get_status_env`; computed from counts, without a scan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

# Lower bound, so that every environment gets some inference.
MIN_ENV_WEIGHT: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentShare:
    """A registered environment; `max_token_length` counts tokens."""

    env_id: int
    max_token_length: int
    weight: float
    group_size: int
    min_batch_allocation: float | None
    connected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStatus:
    """Status of one environment; queue sizes count groups of its own size."""

    queue_size: int
    unallocated_fraction: float
    self_queue_size: int
    max_group_size: int
    env_weight: float
    paced: bool = False
    """Whether `queue_size` differs from that of 0.4.0: see :mod:`buffer.batches.rules.pacing`."""
    held: bool = False
    """Whether the environment must not produce, because the run is paused, draining or over."""


def environment_status(
    *,
    env_id: int,
    environments: Sequence[EnvironmentShare],
    queued: Mapping[tuple[int | None, int], int],
    batch_size: int,
) -> EnvironmentStatus:
    """Return the status of environment `env_id`.

    Args:
        env_id: One of `environments`.
        environments: All environments of the run, connected or not.
        queued: Number of queued groups by (env_id or None, sequences of a group).
        batch_size: Sequences per batch, 0 before registration.
    """
    own = next(environment for environment in environments if environment.env_id == env_id)
    sizes = {key: count for key, count in queued.items() if count > 0}
    largest = max([1, *(size for _, size in sizes)])
    group_size = max([own.group_size, *(size for env, size in sizes if env == env_id)])
    sequences: dict[int | None, int] = {}
    for (env, size), count in sizes.items():
        sequences[env] = sequences.get(env, 0) + size * count
    mine = sequences.pop(env_id, 0)
    others = (
        _remaining_of_others(sequences, environments, largest, batch_size) if largest > 1 else 0
    )
    return EnvironmentStatus(
        queue_size=(mine + others) // group_size,
        unallocated_fraction=1.0 - min(1.0, _allocated(environments)),
        self_queue_size=mine // group_size,
        max_group_size=largest,
        env_weight=_weight(own, environments),
    )


def _weight(own: EnvironmentShare, environments: Sequence[EnvironmentShare]) -> float:
    total = sum(
        other.max_token_length * max(0.0, other.weight) for other in environments if other.connected
    )
    if total <= 0:
        return MIN_ENV_WEIGHT
    return max(MIN_ENV_WEIGHT, own.max_token_length * own.weight / total)


def _allocated(environments: Sequence[EnvironmentShare]) -> float:
    return sum(other.min_batch_allocation or 0.0 for other in environments if other.connected)


def _remaining_of_others(
    sequences: Mapping[int | None, int],
    environments: Sequence[EnvironmentShare],
    largest: int,
    batch_size: int,
) -> int:
    """Return the sequences of others beyond their reservations, in packs of the largest size."""
    reserved: dict[int | None, int] = {
        other.env_id: int(batch_size * other.min_batch_allocation)
        for other in environments
        if other.connected and other.min_batch_allocation is not None
    }
    return sum(
        max(0, ceil(count / largest) * largest - reserved.get(env, 0))
        for env, count in sequences.items()
    )
