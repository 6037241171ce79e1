"""Group commit: writes that arrive while others are in progress are made together."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class GroupCommit(Generic[T, R]):
    """Combines the concurrent writes of threads.

    A thread writes its item at once if fewer than `at_once` writes are in progress. Items that
    arrive in the meantime wait; when a write ends, the thread of the first waiting item writes all
    of them.

    Args:
        write: Function that writes items and returns, for each, its result or its error.
        at_once: Number of concurrent writes.
    """

    def __init__(self, write: Callable[[list[T]], list[R | Exception]], *, at_once: int) -> None:
        self._write = write
        self._free = at_once
        self._waiting: list[_Entry[T, R]] = []
        self._lock = threading.Lock()

    def __call__(self, item: T) -> R:
        """Write an item and return its result.

        Raises:
            Exception: The error of the item. If the write of several items fails, each is written
                alone, so that one item cannot fail others.
        """
        entry: _Entry[T, R] = _Entry(item)
        with self._lock:
            if self._free:
                self._free -= 1
                entry.led = [entry]
            else:
                self._waiting.append(entry)
        if not entry.led:
            entry.turn.wait()
        if entry.led:
            entries, entry.led = entry.led, []  # a cycle would keep the items until collected
            self._lead(entries)
        return entry.result()

    def _lead(self, entries: "list[_Entry[T, R]]") -> None:
        """Write items; then wake their threads, and one that writes the waiting items."""
        try:
            outcomes = self._outcomes(entries)
            # The traceback of an error refers to this list, so an error that stays in it would keep
            # the items until collected.
            for entry in reversed(entries):
                entry.outcome = outcomes.pop()
        finally:
            with self._lock:
                following, self._waiting = self._waiting, []
                self._free += not following
            for entry in entries:
                entry.turn.set()
            if following:
                following[0].led = following
                following[0].turn.set()

    def _outcomes(self, entries: "list[_Entry[T, R]]") -> list[R | Exception]:
        try:
            return self._write([entry.item for entry in entries])
        except Exception as error:  # noqa: BLE001 raised again in the thread of each item
            if len(entries) == 1:
                return [error]
            return [self._outcomes([entry]).pop() for entry in entries]


class _Entry(Generic[T, R]):
    """An item that a thread waits for."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.turn = threading.Event()
        self.led: list[_Entry[T, R]] = []
        """Items that its thread writes, its own first; empty if another thread writes it."""
        self.outcome: R | Exception = RuntimeError("the write of this item was interrupted")

    def result(self) -> R:
        """Return the result, or raise the error; to be called once."""
        outcome = self.outcome
        # The traceback of an error refers to this frame and to the entry.
        del self.outcome
        try:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        finally:
            del outcome
