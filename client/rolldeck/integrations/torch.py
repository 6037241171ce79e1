"""Batches of a run for training loops in torch.

::

    with Trainer(url, "my-run", token) as trainer, RolloutDataset(trainer, device="cuda") as data:
        trainer.register()
        for batch, tensors in DataLoader(data, batch_size=None):
            learn(tensors)
            data.ack(batch)

A batch is acknowledged by `ack` only. Loaders that fetch an item before the loop has finished with
the one before it, such as those of Accelerate and Lightning, acknowledge nothing too early.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from rolldeck.batches import Batch
from rolldeck.closing import Closing
from rolldeck.errors import LeaseLostError
from rolldeck.trainer import MAX_HELD, Prefetcher, Trainer

__all__ = ["RolloutDataset", "TorchBatch", "WindowFullError"]


class WindowFullError(RuntimeError):
    """The loop requests a further batch, and acknowledged none of those that it holds."""


class TorchBatch(NamedTuple):
    """A leased batch and its tensors."""

    batch: Batch
    tensors: dict[str, Tensor]


class RolloutDataset(Closing, IterableDataset[TorchBatch]):
    """Batches of a run, leased by a thread while the loop trains.

    Iterate it directly, or with ``DataLoader(dataset, batch_size=None)``. It ends when the run has
    ended. After a crash, the same batches come again, byte for byte, in the same order.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        device: str | torch.device = "cpu",
        pad_to_multiple: int = 1,
        ahead: int = 1,
    ) -> None:
        """Configure the data set without sending a request.

        Args:
            trainer: The trainer; register it before the iteration. For distributed training it
                has the rank and the world size of this process.
            device: Device of the tensors.
            pad_to_multiple: Sequences are padded to a multiple of this; ignored for fragments.
            ahead: Batches to hold besides the one that is trained on, 1 to 15. Each adds up to one
                version to the staleness of the data.

        Raises:
            ValueError: If `ahead` or `pad_to_multiple` is outside its limits.
        """
        if not 1 <= ahead < MAX_HELD:
            raise ValueError(f"ahead is {ahead}; it must be between 1 and {MAX_HELD - 1}")
        if pad_to_multiple < 1:
            raise ValueError(f"pad_to_multiple is {pad_to_multiple}; it must be at least 1")
        self._trainer = trainer
        self._device = device
        self._pad_to_multiple = pad_to_multiple
        self._ahead = ahead
        self._window: Prefetcher | None = None
        self._unacknowledged: list[Batch] = []

    def close(self) -> None:
        """Stop leasing; unacknowledged batches will be served again."""
        if self._window is not None:
            self._window.close()
        self._window = None
        self._unacknowledged = []

    def __iter__(self) -> Iterator[TorchBatch]:
        """Yield batches until the run has ended.

        Raises:
            WindowFullError: If the loop acknowledges no batch.
            RuntimeError: In a worker process of a loader.
        """
        if get_worker_info() is not None:
            raise RuntimeError(
                "RolloutDataset leases batches in a thread of its own: use num_workers=0"
            )
        self.close()
        self._window = window = Prefetcher(self._trainer, ahead=self._ahead)
        while self._window is window:
            if len(self._unacknowledged) > self._ahead:
                raise WindowFullError(
                    f"{len(self._unacknowledged)} batches are held and none is acknowledged: call "
                    "ack(batch) after the optimizer step, or raise ahead"
                )
            batch = window.next()
            if batch is None:
                return
            self._unacknowledged.append(batch)
            tensors = batch.to_torch(self._device, pad_to_multiple=self._pad_to_multiple)
            yield TorchBatch(batch, tensors)

    def ack(self, batch: Batch) -> None:
        """Acknowledge a batch after the optimizer step that used it.

        Raises:
            ValueError: If the data set does not hold the batch, or holds an earlier one.
            LeaseLostError: If the lease expired and the batch was leased again.
        """
        if self._window is None or not any(batch is each for each in self._unacknowledged):
            raise ValueError(f"{batch} is not held: it was acknowledged, or the iteration ended")
        if batch is not (earlier := self._unacknowledged[0]):
            raise ValueError(f"{batch} is acknowledged before {earlier}: acknowledge in order")
        try:
            self._trainer.ack(batch)
        except LeaseLostError:
            self._settle(batch)
            raise
        self._settle(batch)

    def _settle(self, batch: Batch) -> None:
        self._unacknowledged.remove(batch)
        if self._window is not None:
            self._window.release(batch)
