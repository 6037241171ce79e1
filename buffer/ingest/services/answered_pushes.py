"""Ends of the answers to pushes without idempotency keys.

The process that writes an answer knows its end at once. It marks the row of the push in the
database for the other processes, in the background and without waiting for the disk, and later
deletes it.
"""

import logging
import threading
import time
from collections import deque
from datetime import datetime
from itertools import takewhile
from typing import Final, NamedTuple

from django.db import connection, transaction

from web.sql import statements_of

SQL: Final = statements_of("buffer")

MARKS_AT_MOST_EVERY_SECONDS: Final = 0.02
SECONDS_PER_MARK: Final = 0.002
"""Pause per marked row: few answers are marked at once, many together."""
KEPT_SECONDS: Final = 10.0
"""Time for which the row of an answered push stays.

An equal push may have arrived before the answer, and be stored after it.
"""
logger = logging.getLogger(__name__)

Key = tuple[int, bytes]
"""Run id and fingerprint of a push."""


class AnswerEnd(NamedTuple):
    """End of the answer to a push."""

    row_id: int
    answered_at: datetime | None
    """Time at which it was written; None if the client had closed the connection."""

    def is_before(self, arrived_at: datetime) -> bool:
        """Return whether the client had the answer before an equal push arrived."""
        return self.answered_at is not None and self.answered_at <= arrived_at


class _AnsweredPushes:
    """Ends of the answers of this process, until their rows are deleted."""

    def __init__(self) -> None:
        self._ends: dict[Key, AnswerEnd] = {}
        self._unmarked: list[tuple[Key, AnswerEnd]] = []
        self._marked: deque[tuple[float, Key, AnswerEnd]] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def get(self, key: Key) -> AnswerEnd | None:
        """Return the end of the last answer to a push."""
        return self._ends.get(key)

    def record(self, key: Key, row_id: int, answered_at: datetime | None) -> None:
        """Record the end of an answer."""
        end = AnswerEnd(row_id, answered_at)
        self._ends[key] = end
        with self._news:
            self._unmarked.append((key, end))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            self._news.notify()

    def _work(self) -> None:
        while True:
            with self._news:
                if not self._unmarked:
                    if not self._marked:
                        connection.close()
                    self._news.wait(1.0 if self._marked else None)
                marks, self._unmarked = self._unmarked, []
            try:
                self._store(marks)
            except Exception as error:  # noqa: BLE001 any outage of the database
                logger.warning("rows of answered pushes not marked, retrying: %r", error)
                connection.close()
                with self._news:
                    self._unmarked = [*marks, *self._unmarked]
                time.sleep(1.0)
            else:
                time.sleep(min(MARKS_AT_MOST_EVERY_SECONDS, len(marks) * SECONDS_PER_MARK))

    def _store(self, marks: list[tuple[Key, AnswerEnd]]) -> None:
        """Mark rows, and delete those marked long enough ago."""
        now = time.monotonic()
        old = list(takewhile(lambda one: one[0] < now - KEPT_SECONDS, self._marked))
        # The row of a client that left expires instead, as does one that is not deleted here.
        rows = [end.row_id for *_, end in old if end.answered_at is not None]
        if marks or rows:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit TO off")
                if marks:
                    ends = [end for _, end in marks]
                    ids, times = [end.row_id for end in ends], [end.answered_at for end in ends]
                    cursor.execute(SQL["mark_answers"], [ids, times])
                if rows:
                    cursor.execute(SQL["delete_answered_pushes"], [rows])
        self._marked.extend((now, key, end) for key, end in marks)
        for _, key, end in old:
            self._marked.popleft()
            if self._ends.get(key) == end:
                del self._ends[key]


answered = _AnsweredPushes()
