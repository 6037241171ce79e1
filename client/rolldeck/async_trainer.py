"""Feed an asynchronous training loop from a Rolldeck run.

::

    async with AsyncTrainer(Trainer(url, "my-run", token)) as trainer:
        await trainer.register()
        async for batch in trainer.batches(ahead=2):
            await learn(batch)

The requests run in threads, so that they never block the event loop.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

from rolldeck.batches import Batch
from rolldeck.trainer import Prefetcher, Trainer, TrainerRegistration, Weights, ack_or_log
from rolldeck.wire import WeightsManifest

POLL_SECONDS: Final = 1.0
"""Maximum wait of one request; a cancelled call leaves at most one request behind."""
T = TypeVar("T")


class AsyncTrainer:
    """A `Trainer` whose methods are coroutines; see there for arguments and errors."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        # Request that a cancelled call left behind: it may lease a batch.
        self._pending: asyncio.Future[tuple[Batch | None, bool]] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pending is not None:
            await asyncio.wait([self._pending])
        await asyncio.to_thread(self.trainer.close)

    async def register(
        self, *, resume: bool = False, batch_size: int | None = None, create_run: bool = False
    ) -> TrainerRegistration:
        """Register with the run."""
        return await self._run(
            self.trainer.register, resume=resume, batch_size=batch_size, create_run=create_run
        )

    async def next_batch(
        self, wait_seconds: float = 30.0, *, holding: Sequence[Batch] = ()
    ) -> Batch | None:
        """Return a leased batch, or None if none was complete in time or the run has ended.

        A cancelled call loses no batch: the next call returns it.
        """
        deadline = time.monotonic() + wait_seconds
        while True:
            if self._pending is None:
                wait = min(POLL_SECONDS, max(0.0, deadline - time.monotonic()))
                request = partial(self.trainer.poll_batch, wait, holding=holding)
                self._pending = asyncio.ensure_future(asyncio.to_thread(request))
            pending = self._pending
            await asyncio.wait([pending])  # a cancellation leaves the request running
            self._pending = None
            batch, has_ended = pending.result()
            if batch is not None and all(batch.head.id != each.head.id for each in holding):
                return batch
            if has_ended or time.monotonic() >= deadline:
                return None

    async def batches(self, *, ahead: int = 1) -> AsyncIterator[Batch]:
        """Yield batches until the run has ended; acknowledge each when the next is requested.

        Args:
            ahead: Batches that a thread leases while one is trained on, 1 to 15.
        """
        window = Prefetcher(self.trainer, ahead=ahead)
        try:
            while (batch := await asyncio.to_thread(window.next)) is not None:
                yield batch
                await self._run(ack_or_log, self.trainer, batch)
                window.release(batch)
        finally:
            await asyncio.to_thread(window.close)

    async def ack(self, batch: Batch) -> int:
        """Acknowledge a batch, and return the run's served steps."""
        return await self._run(self.trainer.ack, batch)

    async def status(self) -> str:
        """Return the status of the run."""
        return await self._run(self.trainer.status)

    async def publish_weights(self, state: Weights | bytes, *, step: int) -> WeightsManifest:
        """Publish `state` as version `step`."""
        return await self._run(self.trainer.publish_weights, state, step=step)

    async def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Store one value per name for the run's charts."""
        await self._run(self.trainer.log_metrics, metrics, step=step)

    async def _run(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        return await asyncio.to_thread(partial(call, *args, **named))
