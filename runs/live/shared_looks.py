"""Look something up once for all who ask for it within a short while."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedLooks(Generic[K, T]):
    """Answers of at most a certain age, by what was asked; for one event loop.

    A failure is told to those who wait for it, and to nobody after them.
    """

    def __init__(self, look: Callable[[K], Awaitable[T]], *, seconds: float) -> None:
        self._look = look
        self._seconds = seconds
        self._looks: dict[K, asyncio.Future[T]] = {}

    async def of(self, key: K) -> T:
        """Return the answer for `key`, which somebody else may have asked for a moment ago."""
        asked = self._looks.get(key)
        if asked is None:
            asked = self._looks[key] = asyncio.ensure_future(self._look(key))
            # An answer ages from when it was asked for: what it says was so no earlier.
            asyncio.get_running_loop().call_later(self._seconds, self._forget, key, asked)
            asked.add_done_callback(lambda done: self._forget_failure(key, done))
        # Whoever leaves takes nobody else's answer along.
        return await asyncio.shield(asked)

    def _forget(self, key: K, asked: "asyncio.Future[T]") -> None:
        if self._looks.get(key) is asked:
            del self._looks[key]

    def _forget_failure(self, key: K, done: "asyncio.Future[T]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._forget(key, done)
