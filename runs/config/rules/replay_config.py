"""Replay settings of a fleet run: the sampler, its weights and its capacity."""

from collections.abc import Iterator
from math import ceil
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from runs.config.rules.config_field import described, one_of

Sampler = Literal["fifo", "uniform", "recency", "balanced", "weighted", "prioritized"]
MAX_FRAGMENTS_PER_CHUNK: Final = 256


class ReplayConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replay settings. The defaults form a queue: oldest first, each fragment once."""

    sampler: Annotated[
        Sampler,
        described(
            "Sampler",
            "fifo: the oldest. uniform: any. recency: newer ones more often. balanced: equally "
            "from each environment. weighted, prioritized: by the trainer's priorities.",
        ),
    ] = "fifo"
    alpha: Annotated[
        float,
        described(
            "Alpha",
            "Exponent of recency or priority; 0 is uniform.",
            when=(one_of("buffer.replay.sampler", "recency", "prioritized"),),
            ge=0,
            le=16,
        ),
    ] = 0.6
    beta: Annotated[
        float,
        described(
            "Beta",
            "Exponent of the importance weights; 1 corrects the bias of sampling fully.",
            when=(one_of("buffer.replay.sampler", "prioritized"),),
            ge=0,
            le=1,
        ),
    ] = 0.4
    max_reuse: Annotated[
        int,
        described(
            "Maximum reuse",
            "Maximum number of batches that contain the same chunk.",
            ge=1,
            le=1 << 20,
        ),
    ] = 1
    fragments_per_chunk: Annotated[
        int,
        described(
            "Chunk length",
            "Consecutive fragments of one env slot that are sampled together.",
            unit="fragments",
            ge=1,
            le=MAX_FRAGMENTS_PER_CHUNK,
        ),
    ] = 1
    max_chunks: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        described(
            "Capacity",
            "Maximum number of stored chunks; the oldest are evicted. Empty for no limit.",
            unit="chunks",
        ),
    ] = None
    max_chunks_per_environment: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        described(
            "Capacity per environment",
            "Maximum number of stored chunks of each environment. Empty for no limit.",
            unit="chunks",
        ),
    ] = None

    @property
    def is_queue(self) -> bool:
        """Whether every fragment is served once, alone and in order."""
        return self.sampler == "fifo" and self.max_reuse == 1 and self.fragments_per_chunk == 1


_DEFAULTS: Final = ReplayConfig()


def replay_of(config: dict[str, Any]) -> ReplayConfig:
    """Return the replay settings of a stored run configuration (parsed or empty)."""
    raw = config.get("buffer", {}).get("replay")
    return _DEFAULTS if raw is None else msgspec.convert(raw, ReplayConfig)


def contradictions(replay: ReplayConfig, *, batch_size: int) -> Iterator[tuple[str, str]]:
    """Return each field that makes batches of `batch_size` fragments impossible, and the reason."""
    length = replay.fragments_per_chunk
    if batch_size % length:
        yield "fragments_per_chunk", f"batch_size {batch_size} must be a multiple of {length}"
    if replay.max_chunks is not None and replay.max_chunks * length < batch_size:
        yield "max_chunks", f"must be at least {batch_size // length}, the chunks of one batch"


def admission_shortage(
    *,
    slots: int,
    length: int,
    batch_size: int,
    max_staleness: int | None,
    off_policy_tolerance: float,
) -> str | None:
    """Return why the admission limit of a step fleet can prevent every batch, or None.

    At worst each env slot holds an incomplete chunk of `length` − 1 fragments, while the queue
    lacks one chunk of a batch. A further fragment completes that batch, so it must be admitted.

    Args:
        slots: Env slots of the fleet.
        length: Fragments per chunk.
        batch_size: Fragments per batch, a multiple of `length`.
        max_staleness: Maximum number of versions behind; None for no limit.
        off_policy_tolerance: Batches ahead of training where staleness has no limit.
    """
    held = slots * (length - 1) + batch_size - length
    needed = held + 1
    if max_staleness is not None:
        limit, ahead = "(max_staleness + 1)", float(max_staleness + 1)
        remedy = f"max_staleness to {ceil(needed / batch_size) - 1} or more"
    else:
        limit, ahead = "off_policy_tolerance", off_policy_tolerance
        remedy = f"off_policy_tolerance to {ceil(100 * needed / batch_size) / 100:g} or more"
    admitted = int(ahead * batch_size)
    if admitted >= needed:
        return None
    if length == 1:
        return f"{limit} · batch_size admits {admitted:,} of {batch_size:,} fragments: set {remedy}"
    return (
        f"incomplete chunks of {slots:,} env slots and an incomplete batch can hold {held:,} "
        f"fragments, but {limit} · batch_size admits {admitted:,}, so that no batch is ever "
        f"complete: set {remedy}, or lower num_workers or envs_per_worker"
    )
