"""Read the audit log."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Q, QuerySet

from runs.access.models.tokens import ApiToken
from runs.access.schemas import AuditRow
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
