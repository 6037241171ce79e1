"""Lease batches in a thread while the trainer trains."""

import queue
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from rolldeck.batches import Batch
from rolldeck.closing import Closing

POLL_SECONDS: Final = 1.0
"""Maximum wait of one request, and therefore of :meth:`Prefetcher.close`."""


class BatchSource(Protocol):
    """The trainer, as far as a window needs it."""

    def poll_batch(
        self, wait_seconds: float, *, holding: Sequence[Batch] = ()
    ) -> tuple[Batch | None, bool]:
        """Return another batch, if one was complete in time, and whether the run has ended."""


class Prefetcher(Closing):
    """A window of leased batches, in the order in which they are to be acknowledged."""

    def __init__(self, trainer: BatchSource, *, ahead: int) -> None:
        """Start to lease batches.

        Args:
            trainer: A registered trainer.
            ahead: Number of batches to hold besides the one that is trained on.
        """
        self._trainer = trainer
        self._room = threading.Semaphore(ahead + 1)
        self._held: tuple[Batch, ...] = ()
        self._lock = threading.Lock()
        self._leased: queue.SimpleQueue[Batch | BaseException | None] = queue.SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rolldeck-prefetch", daemon=True)
        self._thread.start()

    @property
    def held(self) -> tuple[Batch, ...]:
        """The batches that are leased and not yet released."""
        return self._held

    def next(self) -> Batch | None:
        """Return the next leased batch, and None once the run has ended.

        Raises:
            RolldeckError: The refusal of a request of the thread.
        """
        got = self._leased.get()
        if isinstance(got, BaseException):
            raise got
        return got

    def release(self, batch: Batch) -> None:
        """Make room for another batch, after an acknowledgement or a lost lease."""
        with self._lock:
            self._held = tuple(each for each in self._held if each is not batch)
        self._room.release()

    def close(self) -> None:
        """Stop leasing; batches that are still held will be served again."""
        self._is_closing.set()
        self._room.release()
        self._thread.join()

    def _run(self) -> None:
        try:
            while (batch := self._lease()) is not None:
                self._leased.put(batch)
            self._leased.put(None)
        except BaseException as error:  # noqa: BLE001 raised in the thread of the trainer
            self._leased.put(error)

    def _lease(self) -> Batch | None:
        """Return the next batch once there is room; None if the run has ended or at `close`."""
        self._room.acquire()
        while not self._is_closing.is_set():
            batch, has_ended = self._trainer.poll_batch(POLL_SECONDS, holding=self._held)
            if batch is not None:
                with self._lock:
                    self._held = (*self._held, batch)
                return batch
            if has_ended:
                return None
        return None
