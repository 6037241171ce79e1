"""Schemas of weights: the content of a file, and its transfer to a worker.

Most readers import these through :mod:`rolldeck.wire`.
"""

from typing import Annotated

from msgspec import Meta, Struct

LargeCount = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Range of a PostgreSQL bigint."""


class TensorSpec(Struct, frozen=True, kw_only=True):
    """One tensor of a weights file; dtype in safetensors' notation (F32, BF16, I64)."""

    name: str
    dtype: str
    shape: list[int]


class WeightsManifest(Struct, frozen=True, kw_only=True):
    """Expected content of a weights file, checked by the platform and by every reader."""

    epoch: Annotated[int, Meta(ge=0, lt=1 << 31)]
    step: Annotated[int, Meta(ge=-1, lt=1 << 31)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Meta(ge=8, le=2**63 - 1)]
    tensors: Annotated[list[TensorSpec], Meta(min_length=1)]


class WeightsTransfers(Struct, frozen=True, kw_only=True):
    """Counts of the versions offered to a worker since the start of its incarnation."""

    received: LargeCount = 0
    adopted: LargeCount = 0
    superseded: LargeCount = 0
    """Versions replaced by a later one before they were used."""
    refused: LargeCount = 0
    """Versions whose tensors do not match the policy."""
    failed: LargeCount = 0
    """Failed attempts to receive a version."""
    received_bytes: LargeCount = 0
    seconds: Annotated[float, Meta(ge=0)] = 0.0
    """Time spent receiving."""
    order: LargeCount = 0
    """Number of the newest weight order that the worker follows."""


class ReplicaReport(Struct, frozen=True, kw_only=True):
    """A replica of a run's inference server, as a worker has reached it."""

    address: Annotated[str, Meta(max_length=200)]
    """Host and port."""
    version: tuple[int, int] | None = None
    """Epoch and step that the worker last found or loaded there; null: none yet."""
    contact_seconds: float | None = None
    """Time since its last response to an update or a check; null: never."""
    error: Annotated[str, Meta(max_length=300)] = ""
    """Reason why it could not be reached at the last attempt; empty if it could."""
