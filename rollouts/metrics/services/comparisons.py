"""Creation and deletion of saved comparisons of runs."""

from datetime import datetime
from typing import Final

import msgspec
from django.db import transaction

from rollouts.metrics.rules.comparisons import COMPARISON
from rollouts.metrics.schemas.comparisons import ComparisonLook, KeepComparison
from runs.lifecycle.queries.runs import RunNotFound, readable_run_id
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, InvalidSavedObject, checked_name

_FARTHEST: Final = 1e18


@transaction.atomic
def keep_comparison(*, wanted: KeepComparison, actor: str, now: datetime) -> SavedObject:
    """Save a comparison for all users.

    Raises:
        InvalidSavedObject: If the name is empty, or a run does not exist.
        TooManyComparisons: If the limit is reached.
    """
    name = checked_name(wanted.name)
    _check(wanted.look)
    row = SavedObject(
        name=name,
        text=wanted.remarks,
        body=msgspec.to_builtins(wanted.look),
        access=Access.OPEN,
    )
    return saved.save(COMPARISON, row, actor=actor, reason=wanted.reason, now=now)


@transaction.atomic
def delete_comparison(*, comparison_id: int, actor: str, reason: str = "", now: datetime) -> None:
    """Delete a comparison.

    Raises:
        SavedObjectNotFound: If there is none with this id.
    """
    found = SavedObject.objects.of(COMPARISON).locked()
    row = found.one(f"comparison {comparison_id} does not exist", pk=comparison_id)
    saved.delete(row, actor=actor, reason=reason, now=now)


def _check(look: ComparisonLook) -> None:
    try:
        for name in look.runs:
            readable_run_id(name)
    except RunNotFound as error:
        raise InvalidSavedObject("look.runs", str(error)) from error
    if (look.begin is None) != (look.end is None):
        raise InvalidSavedObject("look.end", "a range needs both `begin` and `end`, or neither")
    if look.begin is None or look.end is None:
        return
    if not -_FARTHEST <= look.begin <= look.end <= _FARTHEST:
        raise InvalidSavedObject("look.end", "must be a number not less than `begin`")
