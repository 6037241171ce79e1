"""Hand weights to a policy so that a version's label is always that of what was loaded."""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.wire import InvalidMessage, WeightsManifest
from rollouts.fleet.acting import Policy

NO_STEP: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """One published version, never changed: what it is called and what it holds."""

    epoch: int
    step: int
    tensors: Mapping[str, NDArray[Any]]

    @property
    def version(self) -> tuple[int, int]:
        """Epoch and step; later versions are greater."""
        return self.epoch, self.step


def record_of(manifest: WeightsManifest, content: safetensors.Content) -> WeightsRecord:
    """Return the version that `content` (safetensors) holds.

    Raises:
        InvalidMessage: If it is not what the manifest says.
    """
    if len(content) != manifest.size_bytes:
        raise InvalidMessage(f"{len(content)} bytes of weights, expected {manifest.size_bytes}")
    if hashlib.sha256(content).hexdigest() != manifest.sha256:
        raise InvalidMessage("the checksum of the weights is not the manifest's")
    return WeightsRecord(
        epoch=manifest.epoch, step=manifest.step, tensors=safetensors.decode(content)
    )


class WeightsStage:
    """The newest version that a worker was given, and the one it acts with.

    Any thread may stage; one thread loads, between two inferences. A version staged while
    another is being loaded waits for the next turn: the label is never ahead of the weights.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._staged: WeightsRecord | None = None
        self._active: WeightsRecord | None = None
        self._refused: tuple[int, int] | None = None

    @property
    def staged(self) -> tuple[int, int] | None:
        """Version that was handed over last."""
        record = self._staged
        return record.version if record else None

    @property
    def active(self) -> tuple[int, int] | None:
        """Version that the policy holds."""
        record = self._active
        return record.version if record else None

    def stage(self, record: WeightsRecord) -> bool:
        """Offer a version; False if one as new is there already."""
        with self._lock:
            if self._staged is not None and record.version <= self._staged.version:
                return False
            self._staged = record
            return True

    def load_into(self, policy: Policy) -> bool:
        """Load what is staged, if it is new; return whether something was loaded.

        Raises:
            WeightsDoNotFit: If the policy refuses the tensors; they are not tried again.
        """
        with self._lock:
            record = self._staged
        if record is None or record is self._active or record.version == self._refused:
            return False
        try:
            policy.adopt(policy.prepare(record.tensors))
        except ValueError:
            self._refused = record.version
            raise
        self._active = record
        return True

    def forget_loaded(self) -> None:
        """Load the staged version again: the policy is a new one."""
        self._active = None
