"""Share lookups between concurrent callers for a short time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedReads(Generic[K, T]):
    """Cached results by key, up to a maximum age; for one event loop.

    A failure reaches the callers that wait for it and is not cached.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]], *, seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._reads: dict[K, asyncio.Future[T]] = {}

    async def of(self, key: K) -> T:
        """Return the result for `key`, shared with other recent callers."""
        pending = self._reads.get(key)
        if pending is None:
            pending = self._reads[key] = asyncio.ensure_future(self._read(key))
            # The age counts from the start of the lookup, the earliest time the result reflects.
            asyncio.get_running_loop().call_later(self._seconds, self._forget, key, pending)
            pending.add_done_callback(lambda done: self._forget_failure(key, done))
        # Shielded: a cancelled caller must not cancel the lookup of the others.
        return await asyncio.shield(pending)

    def _forget(self, key: K, pending: "asyncio.Future[T]") -> None:
        if self._reads.get(key) is pending:
            del self._reads[key]

    def _forget_failure(self, key: K, done: "asyncio.Future[T]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._forget(key, done)
