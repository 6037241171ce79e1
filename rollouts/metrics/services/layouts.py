"""Creation and deletion of metric layouts."""

from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction

from rollouts.metrics.queries.layouts import layouts_for
from rollouts.metrics.rules.layouts import LAYOUT
from rollouts.metrics.schemas.layouts import SetMetricLayout
from runs.events.services import ACTOR_LENGTH
from runs.lifecycle.models.runs import Run
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, InvalidSavedObject, NotAllowedToChange, checked_name
from web.rules.tags import InvalidTag, checked


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
    row = SavedObject(**_columns(run, body, actor=actor, may_operate=may_operate))
    return saved.save(LAYOUT, row, run_id=run.pk, actor=actor, reason=body.reason, now=now)


@transaction.atomic
def change_layout(
    *,
    run: Run,
    layout_id: int,
    body: SetMetricLayout,
    actor: str,
    may_operate: bool,
    now: datetime,
) -> SavedObject:
    """Replace all fields of a layout.

    Raises:
        SavedObjectNotFound: If the caller sees no such layout in this run.
        NotAllowedToChange: If someone else created it, and the caller is not an operator.
        LayoutExists: If the name is taken.
        InvalidSavedObject: If a field is invalid.
    """
    row = _changeable(run, layout_id, actor=actor, may_operate=may_operate)
    columns = _columns(run, body, actor=actor, may_operate=may_operate)
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
    row = _changeable(run, layout_id, actor=actor, may_operate=may_operate)
    saved.delete(row, run_id=run.pk, actor=actor, reason=reason, now=now)


def _columns(run: Run, body: SetMetricLayout, *, actor: str, may_operate: bool) -> dict[str, Any]:
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


def _changeable(run: Run, layout_id: int, *, actor: str, may_operate: bool) -> SavedObject:
    seen = layouts_for(run, asker=actor).locked()
    row = seen.one(f"the run has no layout {layout_id}", pk=layout_id)
    if row.author != actor[:ACTOR_LENGTH] and not may_operate:
        raise NotAllowedToChange("only its author or an operator may change a layout")
    return row
