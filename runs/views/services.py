"""Creation, change and deletion of saved views, with audit entries."""

from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction

from runs.events.services import ACTOR_LENGTH
from runs.lifecycle.queries import run_named
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, InvalidSavedObject, NotAllowedToChange, checked_name
from runs.views.queries import views_for
from runs.views.rules import VIEW
from runs.views.schemas import SetView
from web.rules.texts import InvalidTag, checked


@transaction.atomic
def save_view(*, body: SetView, actor: str, may_operate: bool, now: datetime) -> SavedObject:
    """Save a view under a name: for the user, or for the readers of a run, a tag or all runs.

    Raises:
        InvalidSavedObject: If its name is empty, or its tag is invalid.
        NotAllowedToChange: If it is to be shared, and the caller is not an operator.
        ViewExists: If the name is taken.
        TooManyViews: If the limit is reached.
    """
    row = SavedObject(**_view_columns(body, actor=actor, may_operate=may_operate))
    return saved.save(VIEW, row, run_id=row.run_id, actor=actor, reason=body.reason, now=now)


@transaction.atomic
def change_view(
    *, view_id: int, body: SetView, actor: str, may_operate: bool, now: datetime
) -> SavedObject:
    """Replace all fields of a view.

    Raises:
        SavedObjectNotFound: If the caller sees no such view.
        NotAllowedToChange: If someone else created it, and the caller is not an operator.
        ViewExists: If the name is taken.
        InvalidSavedObject: If a field is invalid.
    """
    row = _changeable_view(view_id, actor=actor, may_operate=may_operate)
    columns = _view_columns(body, actor=actor, may_operate=may_operate)
    return saved.change(
        VIEW, row, columns, run_id=row.run_id, actor=actor, reason=body.reason, now=now
    )


@transaction.atomic
def delete_view(
    *, view_id: int, actor: str, may_operate: bool, reason: str = "", now: datetime
) -> None:
    """Delete a view.

    Raises:
        SavedObjectNotFound: If the caller sees no such view.
        NotAllowedToChange: If someone else created it, and the caller is not an operator.
    """
    row = _changeable_view(view_id, actor=actor, may_operate=may_operate)
    saved.delete(row, run_id=row.run_id, actor=actor, reason=reason, now=now)


def _view_columns(body: SetView, *, actor: str, may_operate: bool) -> dict[str, Any]:
    columns = {"name": checked_name(body.name), "body": msgspec.to_builtins(body.view)}
    if body.share == "mine":
        who = actor[:ACTOR_LENGTH]
        return columns | {"access": Access.PRIVATE, "run": None, "tag": "", "author": who}
    if not may_operate:
        raise NotAllowedToChange("only operators may share views")
    columns |= {"access": Access.OPEN, "run": None, "tag": ""}
    if body.share == "run":
        return columns | {"run": run_named(body.run)}
    if body.share == "all":
        return columns
    try:
        (tag,) = checked([body.tag])
    except (InvalidTag, ValueError) as error:
        raise InvalidSavedObject("tag", "not a valid tag") from error
    return columns | {"tag": tag}


def _changeable_view(view_id: int, *, actor: str, may_operate: bool) -> SavedObject:
    row = views_for(actor).locked().one(f"no view {view_id}", pk=view_id)
    if row.author != actor[:ACTOR_LENGTH] and not may_operate:
        raise NotAllowedToChange("only its author or an operator may change a view")
    return row
