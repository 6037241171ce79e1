"""Creation and deletion of saved comparisons of runs."""

from datetime import datetime
from typing import Final

import msgspec
from django.db import transaction

from rollouts.metrics.rules.comparisons import COMPARISON
from rollouts.metrics.schemas.comparisons import ComparisonView, SaveComparison
from runs.lifecycle.queries.runs import RunNotFound, readable_run_id
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, InvalidSavedObject, checked_name

_FARTHEST: Final = 1e18


@transaction.atomic
def save_comparison(*, body: SaveComparison, actor: str, now: datetime) -> SavedObject:
    """Save a comparison for all users.

    Raises:
        InvalidSavedObject: If the name is empty, or a run does not exist.
        TooManyComparisons: If the limit is reached.
    """
    name = checked_name(body.name)
    _check(body.view)
    row = SavedObject(
        name=name,
        text=body.remarks,
        body=msgspec.to_builtins(body.view),
        access=Access.OPEN,
    )
    return saved.save(COMPARISON, row, actor=actor, reason=body.reason, now=now)


@transaction.atomic
def delete_comparison(*, comparison_id: int, actor: str, reason: str = "", now: datetime) -> None:
    """Delete a comparison.

    Raises:
        SavedObjectNotFound: If there is none with this id.
    """
    found = SavedObject.objects.of(COMPARISON).locked()
    row = found.one(f"comparison {comparison_id} does not exist", pk=comparison_id)
    saved.delete(row, actor=actor, reason=reason, now=now)


def _check(view: ComparisonView) -> None:
    try:
        for name in view.runs:
            readable_run_id(name)
    except RunNotFound as error:
        raise InvalidSavedObject("view.runs", str(error)) from error
    if (view.begin is None) != (view.end is None):
        raise InvalidSavedObject("view.end", "a range needs both `begin` and `end`, or neither")
    if view.begin is None or view.end is None:
        return
    if not -_FARTHEST <= view.begin <= view.end <= _FARTHEST:
        raise InvalidSavedObject("view.end", "must be a number not less than `begin`")
