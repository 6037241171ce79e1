"""Creation and deletion of the annotations of charts."""

from datetime import datetime

from django.db import transaction

from rollouts.metrics.models import Annotation
from rollouts.metrics.queries.charts import axis_positions
from rollouts.metrics.schemas import NewAnnotation
from runs.events.services import ACTOR_LENGTH, record_event
from web.rules.errors import Forbidden, InvalidField, NotFound


@transaction.atomic
def annotate(*, run_id: int, body: NewAnnotation, actor: str, now: datetime) -> Annotation:
    """Create an annotation at a time; omitted positions on the other axes are looked up.

    Raises:
        InvalidField: If the text is empty, or the time is in the future or has no UTC offset.
    """
    at = body.at or now
    if not body.text.strip():
        raise InvalidField("text", "must not be empty")
    if at.tzinfo is None:
        raise InvalidField("at", "must have a UTC offset, for example 2026-03-01T12:00:00Z")
    if at > now:
        raise InvalidField("at", "must not be in the future")
    (place,) = axis_positions(run_id, [at])
    row = Annotation.objects.create(
        run_id=run_id,
        text=body.text.strip(),
        at=at,
        step=place.step if body.step is None else body.step,
        amount=place.amount if body.amount is None else body.amount,
        created_at=now,
        created_by=actor[:ACTOR_LENGTH],
    )
    record_event(
        run_id=run_id,
        kind="annotated",
        message=f"annotated the charts: {row.text}",
        actor=actor,
        reason=body.reason,
        details={"annotation": row.pk, "at": at.isoformat(), "step": row.step},
        now=now,
    )
    return row


@transaction.atomic
def delete_annotation(
    *,
    run_id: int,
    annotation_id: int,
    actor: str,
    may_operate: bool,
    reason: str = "",
    now: datetime,
) -> None:
    """Hide an annotation; its row is kept.

    Raises:
        NotFound: If the run has no such annotation.
        Forbidden: If someone else wrote it, and the caller is not an operator.
    """
    rows = Annotation.objects.select_for_update().filter(
        pk=annotation_id, run_id=run_id, deleted_at=None
    )
    row = rows.first()
    if row is None:
        raise NotFound(f"annotation {annotation_id} does not exist")
    if row.created_by != actor[:ACTOR_LENGTH] and not may_operate:
        raise Forbidden("only its author or an operator may delete an annotation")
    row.deleted_at, row.deleted_by = now, actor[:ACTOR_LENGTH]
    row.save(update_fields=["deleted_at", "deleted_by"])
    record_event(
        run_id=run_id,
        kind="annotation_deleted",
        message=f"deleted the annotation: {row.text}",
        actor=actor,
        reason=reason,
        details={"annotation": row.pk},
        now=now,
    )
