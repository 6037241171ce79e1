"""Versions of the weights, and the interface of their sources."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    WeightsManifest,
)

NO_STEP: Final = -2

Version = tuple[int, int]
"""Epoch and step; later versions are greater."""
Rank = tuple[int, int, int]
"""Number of the operator's order, then epoch and step; the greater rank wins.

Order numbers increase, so an operator can activate an earlier version again."""


class WeightsUnavailable(Exception):
    """The version is not available at present; a retry may succeed."""


class WeightsSource(Protocol):
    """A transport for weights.

    A reader polls it: ``while (record := source.receive(version)) is None: wait``.
    """

    def receive(self, version: Version) -> "WeightsRecord | None":
        """Return version `version` or a later one, complete and checked; None if there is none yet.

        Raises:
            InvalidMessageError: If the content does not match its manifest; nothing is returned.
            WeightsUnavailable: If the source cannot be reached or lacks an announced version.
        """


class WeightsOffer(WeightsSource, Protocol):
    """A source of exactly one version, which a manager passes to its workers."""

    @property
    def version(self) -> Version:
        """Version that `receive` returns."""

    @property
    def rank(self) -> Rank:
        """Rank that decides between two offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """One published version, immutable: its label and its tensors.

    The tensors are read-only, because policies may use this memory directly.
    """

    epoch: int
    step: int
    tensors: Mapping[str, NDArray[Any]]
    order: int = 0
    """Number of the operator's order under which this version is distributed."""

    @property
    def rank(self) -> Rank:
        return self.order, self.epoch, self.step

    @property
    def version(self) -> Version:
        return self.epoch, self.step

    @property
    def size_bytes(self) -> int:
        """Total size of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def receive(self, version: Version) -> "WeightsRecord | None":
        """Return the record itself: within a process, a record is its own source."""
        return self if self.version >= version else None


def record_of(manifest: WeightsManifest, content: safetensors.Content) -> WeightsRecord:
    """Return the version in `content` (safetensors).

    Raises:
        InvalidMessageError: If the content does not match the manifest.
    """
    if len(content) != manifest.size_bytes:
        raise InvalidMessageError(
            f"{len(content)} bytes of weights, expected {manifest.size_bytes}"
        )
    if hashlib.sha256(content).hexdigest() != manifest.sha256:
        raise InvalidMessageError("the checksum of the weights does not match the manifest")
    if safetensors.specs(content) != manifest.tensors:
        raise InvalidMessageError("tensor names, types or shapes do not match the manifest")
    return WeightsRecord(
        epoch=manifest.epoch, step=manifest.step, tensors=safetensors.decode(content)
    )
