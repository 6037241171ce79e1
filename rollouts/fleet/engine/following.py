"""Load the weights that a run's trainer publishes into a serving engine."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from rolldeck.wire import InvalidMessage
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable, assign
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.transformer import Transformer, TransformerConfig
from rollouts.fleet.policies.base import tensor_of
from rollouts.fleet.weights.records import Version, WeightsRecord, WeightsSource, WeightsUnavailable

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 2.0
BOOTSTRAP: Final[Version] = (0, -1)
"""Version of unpublished weights: older than every published version."""


class WeightsFollower:
    """Thread that polls for newer versions and loads each one between two steps."""

    def __init__(
        self,
        thread: EngineThread,
        weights: "WeightsSwap",
        source: WeightsSource,
        *,
        close_source: Callable[[], None],
    ) -> None:
        """Start following.

        Args:
            thread: Engine thread to update.
            weights: Builds models from published tensors.
            source: Source of the versions.
            close_source: Called by this thread at its end. Another thread could close the source
                in the middle of a request.
        """
        self._thread, self._weights, self._source = thread, weights, source
        self._close_source = close_source
        self._tried: Version = thread.progress.version
        """Last version that was adopted or refused."""
        self._said = ""
        self._stop = threading.Event()
        self._runner = threading.Thread(target=self._run, name="weights", daemon=True)
        self._runner.start()

    def close(self) -> None:
        """Stop after the current attempt, without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            self._close_source()

    def _follow(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            wait = POLL_SECONDS
            try:
                record = self._source.receive((self._tried[0], self._tried[1] + 1))
            except (WeightsUnavailable, InvalidMessage) as failure:
                self._log_once(f"no weights received: {failure}")
                wait = RETRY_SECONDS
                continue
            self._said = ""
            if record is not None:
                self._load(record)

    def _load(self, record: WeightsRecord) -> None:
        self._tried = record.version
        try:
            self._weights.swap(record.tensors, record.version)
        except CheckpointUnreadable as misfit:
            logger.error("version %s refused: %s", list(record.version), misfit)  # noqa: TRY400
            return
        logger.info("version %s loaded", list(record.version))

    def _log_once(self, failure: str) -> None:
        if failure != self._said:
            self._said = failure
            logger.warning("%s", failure)


class WeightsSwap:
    """Builds models from published tensors and loads them into an engine."""

    def __init__(
        self,
        thread: EngineThread,
        config: TransformerConfig,
        *,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        self._thread, self._config = thread, config
        self._device, self._dtype = device, dtype

    @property
    def size_bytes(self) -> int:
        """Size of the weights as float32: the largest plausible size of a file."""
        with torch.device("meta"):
            model = Transformer(self._config)
        return 4 * sum(weight.numel() for weight in model.parameters())

    def swap(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Use `tensors` from the next step on.

        Args:
            tensors: NumPy arrays or torch tensors under Hugging Face's names.
            version: Version of the tensors.

        Raises:
            CheckpointUnreadable: If names or shapes do not match the model; nothing changes.
        """
        with torch.device("meta"):
            model = Transformer(self._config)
        found = {
            name: value if isinstance(value, Tensor) else tensor_of(value)
            for name, value in tensors.items()
        }
        assign(model, found, device=self._device, dtype=self._dtype)
        self._thread.update_weights(model, version)
