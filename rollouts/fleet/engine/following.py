"""Let a serving engine follow the weights that a run's trainer publishes."""

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
"""Label of weights that came from no trainer: older than every published version."""


class WeightsFollower:
    """A thread that looks for later versions and hands each to the engine, between two steps."""

    def __init__(
        self,
        thread: EngineThread,
        weights: "WeightsSwap",
        source: WeightsSource,
        *,
        close_source: Callable[[], None],
    ) -> None:
        """Begin to follow.

        Args:
            thread: Whose weights are swapped.
            weights: Makes a model of what was published.
            source: Where versions come from.
            close_source: Called by the thread when it ends: closed from outside, the source could
                be in the middle of a request.
        """
        self._thread, self._weights, self._source = thread, weights, source
        self._close_source = close_source
        self._tried: Version = thread.progress.version
        """The last version that was adopted or refused."""
        self._said = ""
        self._stop = threading.Event()
        self._runner = threading.Thread(target=self._run, name="weights", daemon=True)
        self._runner.start()

    def close(self) -> None:
        """End after the try that is under way, without waiting for it."""
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
                self._say_once(f"no weights came: {failure}")
                wait = RETRY_SECONDS
                continue
            self._said = ""
            if record is not None:
                self._take(record)

    def _take(self, record: WeightsRecord) -> None:
        self._tried = record.version
        try:
            self._weights.swap(record.tensors, record.version)
        except CheckpointUnreadable as misfit:
            logger.error("version %s is refused: %s", list(record.version), misfit)  # noqa: TRY400
            return
        logger.info("version %s is loaded", list(record.version))

    def _say_once(self, failure: str) -> None:
        if failure != self._said:
            self._said = failure
            logger.warning("%s", failure)


class WeightsSwap:
    """Makes models of published tensors and lets an engine go on with them."""

    def __init__(
        self,
        thread: EngineThread,
        config: TransformerConfig,
        *,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        """Swap into an engine.

        Args:
            thread: Of the engine.
            config: Shapes of its model.
            device: Where its weights are.
            dtype: Of its weights.
        """
        self._thread, self._config = thread, config
        self._device, self._dtype = device, dtype

    @property
    def size_bytes(self) -> int:
        """Bytes of the weights as float32: the most that a file of them has reason to hold."""
        with torch.device("meta"):
            model = Transformer(self._config)
        return 4 * sum(weight.numel() for weight in model.parameters())

    def swap(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Draw with `tensors` from the next step on.

        Args:
            tensors: By Hugging Face's names; numpy arrays or torch tensors.
            version: Of them.

        Raises:
            CheckpointUnreadable: If names or shapes are not the model's; nothing changes.
        """
        with torch.device("meta"):
            model = Transformer(self._config)
        found = {
            name: value if isinstance(value, Tensor) else tensor_of(value)
            for name, value in tensors.items()
        }
        assign(model, found, device=self._device, dtype=self._dtype)
        self._thread.update_weights(model, version)
