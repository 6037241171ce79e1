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

    def __init__(self, look: Callable[[K], Awaitable[T]], *, seconds: float) -> None:
        self._look = look
        self._seconds = seconds
        self._looks: dict[K, asyncio.Future[T]] = {}

    async def of(self, key: K) -> T:
        """Return the result for `key`, shared with other recent callers."""
        asked = self._looks.get(key)
        if asked is None:
            asked = self._looks[key] = asyncio.ensure_future(self._look(key))
            # The age counts from the start of the lookup, the earliest time the result reflects.
            asyncio.get_running_loop().call_later(self._seconds, self._forget, key, asked)
            asked.add_done_callback(lambda done: self._forget_failure(key, done))
        # Shielded: a cancelled caller must not cancel the lookup of the others.
        return await asyncio.shield(asked)

    def _forget(self, key: K, asked: "asyncio.Future[T]") -> None:
        if self._looks.get(key) is asked:
            del self._looks[key]

    def _forget_failure(self, key: K, done: "asyncio.Future[T]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._forget(key, done)
