"""Shape what is said about weights: what a file holds, and what became of it in a worker.

Most readers import these through :mod:`rolldeck.wire`.
"""

from typing import Annotated

from msgspec import Meta, Struct

LargeCount = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""What a PostgreSQL bigint holds."""


class TensorSpec(Struct, frozen=True, kw_only=True):
    """One tensor of a weights file; dtype in safetensors' spelling (F32, BF16, I64)."""

    name: str
    dtype: str
    shape: list[int]


class WeightsManifest(Struct, frozen=True, kw_only=True):
    """What a weights file must contain, checked by the platform and by every reader."""

    epoch: Annotated[int, Meta(ge=0, lt=1 << 31)]
    step: Annotated[int, Meta(ge=-1, lt=1 << 31)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Meta(ge=8, le=2**63 - 1)]
    tensors: Annotated[list[TensorSpec], Meta(min_length=1)]


class WeightsTransfers(Struct, frozen=True, kw_only=True):
    """What became of the versions that a worker was offered, since its incarnation began."""

    received: LargeCount = 0
    adopted: LargeCount = 0
    superseded: LargeCount = 0
    """A later version took their place before they were acted with."""
    refused: LargeCount = 0
    """The policy has other tensors."""
    failed: LargeCount = 0
    """Attempts to receive one that brought nothing."""
    received_bytes: LargeCount = 0
    seconds: Annotated[float, Meta(ge=0)] = 0.0
    """Spent on receiving."""
    order: LargeCount = 0
    """Of a person about weights: the newest that the worker acts under."""
