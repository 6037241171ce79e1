"""Responses that send stored bytes unchanged and report whether the last byte was sent.

"Sent" means handed to the connection. The server hands over the last byte only after its own
buffer is empty and it has checked that the client is still connected. A client can therefore
not receive a complete answer that was recorded as cut. Bytes in the buffers of the two kernels
(a few megabytes at most) count as sent; a trainer that loses such bytes registers again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpResponse

Callback = Callable[[], None]


class StoredAnswer(HttpResponse):
    """A response in several parts, which are sent without joining them."""

    def __init__(self, parts: Sequence[bytes], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = list(parts)
        # Django's list of body chunks, for servers that do not use `parts`. The explicit
        # Content-Length keeps Django from joining them.
        self._container = self.parts
        self.headers["Content-Length"] = str(sum(map(len, self.parts)))


class TrackedAnswer(StoredAnswer):
    """A stored answer that calls `on_sent` or `on_cut` once, when sending ends."""

    def __init__(
        self, parts: Sequence[bytes], *, on_sent: Callback, on_cut: Callback, **kwargs: Any
    ) -> None:
        super().__init__(parts, **kwargs)
        self._callbacks: dict[bool, Callback] | None = {True: on_sent, False: on_cut}

    def finish(self, *, is_sent: bool) -> None:
        """Record how sending ended; later calls have no effect."""
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            callbacks[is_sent]()

    def close(self) -> None:
        """Record the answer as sent unless the server reported otherwise."""
        self.finish(is_sent=True)
        super().close()
