"""Creation, change and deletion of the layouts and annotations of charts."""

from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction

from rollouts.metrics.models import Annotation
from rollouts.metrics.queries.charts import axis_positions, layouts_for
from rollouts.metrics.rules import LAYOUT
from rollouts.metrics.schemas import NewAnnotation, SetMetricLayout
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.models import Run
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, InvalidSavedObject, NotAllowedToChange, checked_name
from web.rules.errors import Forbidden, InvalidField, NotFound
from web.rules.texts import InvalidTag, checked


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


@transaction.atomic
def save_layout(
    *, run: Run, body: SetMetricLayout, actor: str, may_operate: bool, now: datetime
) -> SavedObject:
    """Save a layout under a name: for the user, for a run or for a tag.

    Raises:
        InvalidSavedObject: If its name is empty, or its tag is invalid.
        NotAllowedToChange: If it is to be shared, and the caller is not an operator.
        LayoutExists: If the name is taken.
        TooManyLayouts: If the limit is reached.
    """
    row = SavedObject(**_layout_columns(run, body, actor=actor, may_operate=may_operate))
    return saved.save(LAYOUT, row, run_id=run.pk, actor=actor, reason=body.reason, now=now)


@transaction.atomic
def change_layout(
    *, run: Run, layout_id: int, body: SetMetricLayout, actor: str, may_operate: bool, now: datetime
) -> SavedObject:
    """Replace all fields of a layout.

    Raises:
        SavedObjectNotFound: If the caller sees no such layout in this run.
        NotAllowedToChange: If someone else created it, and the caller is not an operator.
        LayoutExists: If the name is taken.
        InvalidSavedObject: If a field is invalid.
    """
    row = _changeable_layout(run, layout_id, actor=actor, may_operate=may_operate)
    columns = _layout_columns(run, body, actor=actor, may_operate=may_operate)
    return saved.change(
        LAYOUT, row, columns, run_id=run.pk, actor=actor, reason=body.reason, now=now
    )


@transaction.atomic
def delete_layout(
    *, run: Run, layout_id: int, actor: str, may_operate: bool, reason: str = "", now: datetime
) -> None:
    """Delete a layout.

    Raises:
        SavedObjectNotFound: If the caller sees no such layout in this run.
        NotAllowedToChange: If someone else created it, and the caller is not an operator.
    """
    row = _changeable_layout(run, layout_id, actor=actor, may_operate=may_operate)
    saved.delete(row, run_id=run.pk, actor=actor, reason=reason, now=now)


def _layout_columns(
    run: Run, body: SetMetricLayout, *, actor: str, may_operate: bool
) -> dict[str, Any]:
    columns = {"name": checked_name(body.name), "body": msgspec.to_builtins(body.view)}
    if body.share == "mine":
        who = actor[:ACTOR_LENGTH]
        return columns | {"access": Access.PRIVATE, "run": None, "tag": "", "author": who}
    if not may_operate:
        raise NotAllowedToChange("only operators may share layouts")
    if body.share == "run":
        return columns | {"access": Access.OPEN, "run": run, "tag": ""}
    try:
        (tag,) = checked([body.tag])
    except (InvalidTag, ValueError) as error:
        raise InvalidSavedObject("tag", "not a valid tag") from error
    return columns | {"access": Access.OPEN, "run": None, "tag": tag}


def _changeable_layout(run: Run, layout_id: int, *, actor: str, may_operate: bool) -> SavedObject:
    seen = layouts_for(run, asker=actor).locked()
    row = seen.one(f"the run has no layout {layout_id}", pk=layout_id)
    if row.author != actor[:ACTOR_LENGTH] and not may_operate:
        raise NotAllowedToChange("only its author or an operator may change a layout")
    return row
