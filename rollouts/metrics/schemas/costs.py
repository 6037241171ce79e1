"""Shape what is answered about what runs cost."""

from typing import Literal

from msgspec import Struct

from buffer.items.schemas.ledgers import KindLedger


class RunCost(Struct, frozen=True, kw_only=True):
    """What became of a run's data, and what its workers took for it; null is not known."""

    run: str
    unit: Literal["groups", "fragments"]
    ledger: KindLedger
    """Of this unit."""
    confirmed_batches: int
    served_sequences: int | None
    """In confirmed batches; null for fragments."""
    served_tokens: int | None
    """In confirmed batches; null for fragments, whose tokens nobody counts."""
    worker_seconds: float | None
    """Lifetimes of all workers, by their first and last reports; null where no fleet of ours is."""
    gpu_seconds: float | None
    """The same times the GPUs that each reserves."""


class RunCosts(Struct, frozen=True, kw_only=True):
    """Costs of several runs."""

    results: list[RunCost]
