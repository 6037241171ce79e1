"""Answers of stored bytes, and the record of how their sending ended.

Stored bytes are sent unchanged, and the answer reports whether the last byte was sent: handed to
the connection. The server hands over the last byte only after its own buffer is empty and it has
checked that the client is still connected. A client can therefore not receive a complete answer
that was recorded as cut. Bytes in the buffers of the two kernels (a few megabytes at most) count as
sent; a trainer that loses such bytes registers again.
"""

import logging
import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, Final

from django.db import connections
from django.http import HttpResponse

from web.outages import is_outage

logger = logging.getLogger(__name__)

Callback = Callable[[], None]
RETRY_SECONDS: Final = 0.5
RECORD_SECONDS: Final = 600.0
"""Time in which the end of an answer is recorded once the database is available again."""


class StoredAnswer(HttpResponse):
    """A response in several parts, which are sent without joining them."""

    def __init__(self, parts: Sequence[bytes], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = list(parts)
        # Django's list of body chunks, for servers that do not use `parts`. The explicit
        # Content-Length keeps Django from joining them.
        self._container = self.parts
        self.headers["Content-Length"] = str(sum(map(len, self.parts)))


def _record_later(record: Callback) -> None:
    """Record the end of an answer once the database is available again."""
    deadline = time.monotonic() + RECORD_SECONDS
    while time.monotonic() < deadline:
        time.sleep(RETRY_SECONDS)
        try:
            record()
        except Exception as error:
            if not is_outage(error):
                raise
        else:
            return
        finally:
            connections.close_all()
    logger.error("the end of an answer was not recorded within %d s", RECORD_SECONDS)


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
        if callbacks is None:
            return
        record = callbacks[is_sent]
        try:
            record()
        except Exception as error:
            if not is_outage(error):
                raise
            # Otherwise a batch that was received would be leased again when its lease expires.
            logger.warning("the end of an answer is recorded later: %s", error)
            Thread(target=_record_later, args=(record,), name="deliveries", daemon=True).start()

    def close(self) -> None:
        """Record the answer as sent unless the server reported otherwise."""
        self.finish(is_sent=True)
        super().close()
