"""Describe how a fleet run's fragments are sampled, and how often."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from runs.core.config_field import described

Sampler = Literal["fifo", "uniform", "recency", "balanced", "weighted", "prioritized"]
MAX_FRAGMENTS_PER_CHUNK: Final = 256


class ReplayConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which fragments a batch takes. The defaults are a queue: the oldest first, each once."""

    sampler: Annotated[
        Sampler,
        described(
            "Sampler",
            "fifo: the oldest. uniform: any. recency: newer ones more often. balanced: as many of "
            "each environment. weighted, prioritized: by the priorities that the trainer sets.",
        ),
    ] = "fifo"
    alpha: Annotated[
        float,
        described(
            "Alpha",
            "How strongly recency or priority counts; 0 is uniform.",
            ge=0,
            le=16,
        ),
    ] = 0.6
    beta: Annotated[
        float,
        described(
            "Beta",
            "How far importance weights undo the bias of prioritized sampling; 1 is wholly.",
            ge=0,
            le=1,
        ),
    ] = 0.4
    max_reuse: Annotated[
        int,
        described("Maximum reuse", "Batches that may hold one chunk.", ge=1, le=1 << 20),
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
            "Chunks that may wait to be sampled; beyond it the oldest go. Empty for no limit.",
            unit="chunks",
        ),
    ] = None
    max_chunks_per_environment: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        described(
            "Capacity per environment",
            "The same for each environment by itself. Empty for no limit.",
            unit="chunks",
        ),
    ] = None

    @property
    def is_queue(self) -> bool:
        """Whether every fragment is handed out once, alone and in its turn."""
        return self.sampler == "fifo" and self.max_reuse == 1 and self.fragments_per_chunk == 1


_DEFAULTS: Final = ReplayConfig()


def replay_of(config: dict[str, Any]) -> ReplayConfig:
    """Return the replay settings in a stored run configuration (a parsed one, or empty)."""
    raw = config.get("buffer", {}).get("replay")
    return _DEFAULTS if raw is None else msgspec.convert(raw, ReplayConfig)


def contradiction(replay: ReplayConfig, *, batch_size: int) -> tuple[str, str] | None:
    """Return a field that makes batches of `batch_size` fragments impossible, and why."""
    length = replay.fragments_per_chunk
    if batch_size % length:
        return "fragments_per_chunk", f"batches of {batch_size} fragments are no whole chunks"
    if replay.max_chunks is not None and replay.max_chunks * length < batch_size:
        return "max_chunks", f"a batch needs {batch_size // length} chunks at once"
    return None
