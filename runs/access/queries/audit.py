"""Read the audit log, all of it or the newest rows."""

import threading
from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Max, Q, QuerySet

from runs.access.models import ApiToken
from runs.access.schemas import AuditRow, RecentAudit
from runs.events.models import RunEvent

AUDIT_AT_MOST: Final = 500


def token_names(identities: Any) -> dict[str, str]:
    """Return the names of those identities that are tokens."""
    numbers = [
        int(number)
        for kind, _, number in (identity.partition(":") for identity in set(identities))
        if kind == "token" and number.isdigit()
    ]
    found = ApiToken.objects.filter(pk__in=numbers).values_list("pk", "name")
    return {f"token:{pk}": name for pk, name in found}


def shown_name(identity: str, names: Mapping[str, str]) -> str:
    """Return the display name of an actor; `names` are those of tokens, by identity."""
    return names.get(identity) or identity.partition(":")[2] or identity


def audit(
    *, filters: dict[str, str], before: int | None, limit: int, after: int | None = None
) -> list[AuditRow]:
    """Return audit rows, newest first.

    Args:
        filters: Any of `actor`, `run`, `kind`, `request` (exact match), `text` (part of message or
            reason), `people` ("1": only actions of people and tokens).
        before: Only rows with a smaller id.
        limit: Maximum number of rows.
        after: Only rows with a larger id.
    """
    found = _audited(filters)
    if after is not None:
        found = found.filter(id__gt=after)
    if before is not None:
        found = found.filter(id__lt=before)
    rows = list(found.select_related("run").order_by("-id")[:limit])
    names = token_names(row.actor for row in rows)
    return [_audit_row(row, names) for row in rows]


def _audited(filters: dict[str, str]) -> QuerySet[RunEvent]:
    found = RunEvent.objects.all()
    whole = {"actor": "actor", "run": "run__name", "kind": "kind", "request": "request_id"}
    for name, column in whole.items():
        if filters.get(name):
            found = found.filter(**{column: filters[name]})
    if filters.get("people"):
        found = found.filter(Q(actor__startswith="user:") | Q(actor__startswith="token:"))
    if text := filters.get("text"):
        found = found.filter(Q(message__icontains=text) | Q(reason__icontains=text))
    return found


def _audit_row(row: RunEvent, names: dict[str, str]) -> AuditRow:
    own = set(AuditRow.__struct_fields__) - {"run", "actor_name"}
    return AuditRow(
        **{name: getattr(row, name) for name in own},
        run=row.run.name if row.run else None,
        actor_name=names.get(row.actor, row.actor.partition(":")[2] or row.actor),
    )


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
