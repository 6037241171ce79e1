"""Say what a version of the weights is, and where one may come from."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.wire import InvalidMessage, WeightsManifest

NO_STEP: Final = -2

Version = tuple[int, int]
"""Epoch and step; later versions are greater."""
Rank = tuple[int, int, int]
"""Number of the order that an offer follows, then epoch and step: the greater one holds.

People may want an earlier version back, or the same one again: their orders count up."""


class WeightsUnavailable(Exception):
    """The version cannot be had at present; another try may succeed."""


class WeightsSource(Protocol):
    """One way for weights to travel.

    ``while (record := source.receive(wanted)) is None: wait`` is all a reader does.
    """

    def receive(self, wanted: Version) -> "WeightsRecord | None":
        """Return version `wanted` or a later one, whole and checked; None while there is none.

        Raises:
            InvalidMessage: If what came is not what its manifest says; none of it is returned.
            WeightsUnavailable: If the source cannot be reached, or does not hold what it should.
        """


class WeightsOffer(WeightsSource, Protocol):
    """A source that a manager passes to its workers: it holds one version."""

    @property
    def version(self) -> Version:
        """What `receive` will return."""

    @property
    def rank(self) -> Rank:
        """Which of two offers holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """One published version, never changed: what it is called and what it holds.

    Nobody writes into the tensors: policies may act with these very bytes.
    """

    epoch: int
    step: int
    tensors: Mapping[str, NDArray[Any]]
    order: int = 0
    """Of a person about weights, that this version is passed on under."""

    @property
    def rank(self) -> Rank:
        """Which of two versions holds."""
        return self.order, self.epoch, self.step

    @property
    def version(self) -> Version:
        """Epoch and step."""
        return self.epoch, self.step

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def receive(self, wanted: Version) -> "WeightsRecord | None":
        """Return itself: within a process a record is its own source."""
        return self if self.version >= wanted else None


def record_of(manifest: WeightsManifest, content: safetensors.Content) -> WeightsRecord:
    """Return the version that `content` (safetensors) holds.

    Raises:
        InvalidMessage: If it is not what the manifest says.
    """
    if len(content) != manifest.size_bytes:
        raise InvalidMessage(f"{len(content)} bytes of weights, expected {manifest.size_bytes}")
    if hashlib.sha256(content).hexdigest() != manifest.sha256:
        raise InvalidMessage("the checksum of the weights is not the manifest's")
    if safetensors.specs(content) != manifest.tensors:
        raise InvalidMessage("the weights have other names, types or shapes than the manifest")
    return WeightsRecord(
        epoch=manifest.epoch, step=manifest.step, tensors=safetensors.decode(content)
    )
