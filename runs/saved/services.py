"""Save, change and delete saved objects, with audit entries."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from runs.events.services import ACTOR_LENGTH, record_event
from runs.saved.models import SavedObject
from runs.saved.rules import Access, SavedKind, differences


@transaction.atomic
def save(
    kind: SavedKind,
    row: SavedObject,
    *,
    run_id: int | None = None,
    actor: str,
    reason: str = "",
    now: datetime,
) -> SavedObject:
    """Insert an object of a kind; `run_id` is the run whose history records it.

    Raises:
        kind.name_taken: If the name is taken.
        kind.too_many: If the limit is reached.
    """
    row.kind, row.author = kind.name, actor[:ACTOR_LENGTH]
    row.created_at = now
    in_scope = SavedObject.objects.of(kind).filter(run=row.run, tag=row.tag)
    if row.access == Access.PRIVATE:
        in_scope = in_scope.filter(author=row.author)
    if kind.at_most is not None and in_scope.count() >= kind.at_most:
        raise kind.too_many(
            f"all {kind.at_most} places for {kind.name}s are used; delete one first"
        )
    _store(kind, row, actor=actor, now=now)
    event = _event(row, "saved", f"saved, {row.access}", {"access": row.access})
    record_event(**event, run_id=run_id, actor=actor, reason=reason, now=now)
    return row


@transaction.atomic
def change(
    kind: SavedKind,
    row: SavedObject,
    changes: dict[str, Any],
    *,
    run_id: int | None = None,
    actor: str,
    reason: str = "",
    now: datetime,
) -> SavedObject:
    """Set columns of a locked object, as its next revision.

    Raises:
        kind.name_taken: If the name is taken.
    """
    before = _audited(kind, row)
    for name, value in changes.items():
        setattr(row, name, value)
    row.revision += 1
    _store(kind, row, actor=actor, now=now)
    after = _audited(kind, row)
    details = differences(before, after)
    fields = {path.partition(".")[0] for path in details}
    if Access.PRIVATE in {before["access"], after["access"]}:
        details = {
            path: value for path, value in details.items() if path.partition(".")[0] != kind.body
        }
    event = _event(row, "changed", f"changed: {', '.join(sorted(fields)) or 'nothing'}", details)
    record_event(**event, run_id=run_id, actor=actor, reason=reason, now=now)
    return row


@transaction.atomic
def delete(
    row: SavedObject, *, run_id: int | None = None, actor: str, reason: str = "", now: datetime
) -> None:
    """Delete a locked object; its row stays."""
    row.deleted_at = now
    row.save(update_fields=["deleted_at"])
    event = _event(row, "deleted", "deleted", {})
    record_event(**event, run_id=run_id, actor=actor, reason=reason, now=now)


def _store(kind: SavedKind, row: SavedObject, *, actor: str, now: datetime) -> None:
    row.changed_at, row.changed_by = now, actor[:ACTOR_LENGTH]
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if kind.name_taken is None:
            raise
        raise kind.name_taken(f"a {kind.name} named {row.name!r} already exists") from error


def _audited(kind: SavedKind, row: SavedObject) -> dict[str, Any]:
    """Return the fields of an object by their names in the audit log."""
    fields = {"name": row.name, "access": row.access, "tag": row.tag, kind.body: row.body}
    return fields | ({kind.text: row.text} if kind.text else {})


def _event(row: SavedObject, verb: str, words: str, details: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": f"{row.kind}_{verb}",
        "message": f"{row.kind} {row.name} {words}",
        "details": {"id": row.pk, "name": row.name, **details},
    }
