"""Schemas of the run costs API."""

from typing import Literal

from msgspec import Struct

from buffer.items.schemas import KindLedger
from web.rules.pages import Page


class RunCost(Struct, frozen=True, kw_only=True):
    """Use of a run's data, and the worker time spent; null if unknown."""

    run: str
    unit: Literal["groups", "fragments"]
    ledger: KindLedger
    """Amounts in `unit`."""
    confirmed_batches: int
    served_sequences: int | None
    """Sequences in acknowledged batches; null for fragments."""
    served_tokens: int | None
    """Tokens in acknowledged batches; null for fragments, which have no token count."""
    worker_seconds: float | None
    """Sum of the workers' lifetimes, from first to last report; null without a managed fleet."""
    gpu_seconds: float | None
    """Worker time multiplied by the GPUs that each worker reserves."""


class RunCosts(Page[RunCost], frozen=True, kw_only=True):
    """Costs of several runs."""
