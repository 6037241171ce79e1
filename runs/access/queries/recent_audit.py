"""Incremental reader of the newest audit rows."""

import threading
from typing import Final

from django.db.models import Max

from runs.access.queries.audit import audit
from runs.access.schemas import AuditRow, RecentAudit
from runs.events.models import RunEvent

RECENT_ROWS: Final = 6
# Overlap in ids: transactions commit out of order, so rows may become visible out of order.
OVERLAP_IDS: Final = 64


class AuditReader:
    """Reads new audit rows since the last call; the first call finds the newest ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: int | None = None
        self._recent: list[AuditRow] = []

    def read(self) -> RecentAudit:
        """Return the newest row's id, and the newest rows of people and tokens."""
        with self._lock:
            newest = RunEvent.objects.aggregate(Max("id"))["id__max"] or 0
            if self._newest is None or newest < self._newest:
                self._recent = audit(filters={"people": "1"}, before=None, limit=RECENT_ROWS)
            else:
                known = {row.id: row for row in self._recent}
                known |= {row.id: row for row in self._further(self._newest - OVERLAP_IDS)}
                self._recent = [known[row_id] for row_id in sorted(known, reverse=True)]
            self._newest, self._recent = newest, self._recent[:RECENT_ROWS]
            return RecentAudit(newest=newest, recent=self._recent)

    @staticmethod
    def _further(after: int) -> list[AuditRow]:
        return audit(filters={"people": "1"}, before=None, limit=RECENT_ROWS, after=after)


audit_reader: Final = AuditReader()
