"""Delivery of the answers to pushes without idempotency keys.

The process that sends an answer records its delivery in memory and deletes the row of the push
shortly after, without waiting for the disk. If it dies in between, the row stays.
"""

import logging
import threading
import time
from typing import Final

from django.db import connection, transaction

# Delay until other processes see that an answer was delivered.
RECORD_DELAY_SECONDS: Final = 0.25
logger = logging.getLogger(__name__)

Key = tuple[int, bytes]
"""Run id and fingerprint of a push."""


class _Deliveries:
    """Rows of delivered answers, until they are deleted."""

    def __init__(self) -> None:
        self._rows: dict[Key, int] = {}
        self._sent: dict[Key, int] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None

    def row_of(self, key: Key) -> int | None:
        """Return the row whose answer this process delivered, if it may not be deleted yet."""
        with self._lock:
            return self._rows.get(key)

    def is_sent(self, key: Key, row_id: int) -> bool:
        """Return whether an answer was sent and is not known to be unread."""
        with self._lock:
            return row_id in {self._sent.get(key), self._rows.get(key)}

    def record_sent(self, key: Key, row_id: int) -> None:
        """Record an answer that was sent."""
        with self._lock:
            self._sent[key] = row_id

    def note(self, key: Key, row_id: int, was_read: bool) -> None:
        """Record an answer that was read; remove one that was not."""
        with self._lock:
            if self._sent.get(key) == row_id:
                del self._sent[key]
            if not was_read:
                return
            self._rows[key] = row_id
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        self._news.set()

    def _work(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            time.sleep(RECORD_DELAY_SECONDS)
            try:
                self._forget()
            except Exception:
                logger.warning("rows of answered pushes not deleted, retrying", exc_info=True)
            finally:
                connection.close()

    def _forget(self) -> None:
        with self._lock:
            rows = dict(self._rows)
        with transaction.atomic(), connection.cursor() as cursor:
            # Losing this delete is harmless: old rows are deleted anyway.
            cursor.execute("SET LOCAL synchronous_commit TO off")
            cursor.execute(
                "DELETE FROM buffer_unansweredpush WHERE id = ANY(%s)", [list(rows.values())]
            )
        with self._lock:
            for key, row_id in rows.items():
                if self._rows.get(key) == row_id:
                    del self._rows[key]


deliveries = _Deliveries()
