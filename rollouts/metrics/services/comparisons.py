"""Creation and deletion of saved comparisons of runs."""

from datetime import datetime
from typing import Final

import msgspec
from django.db import transaction

from rollouts.metrics.models.comparisons import COMPARISONS_AT_MOST, Comparison
from rollouts.metrics.queries.comparisons import ComparisonNotFound
from rollouts.metrics.schemas.comparisons import ComparisonLook, KeepComparison
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.queries.runs import RunNotFound, readable_run_id
from web.rules.errors import Conflict, InvalidField

_FARTHEST: Final = 1e18


class InvalidComparison(InvalidField):
    """A comparison is invalid; `field` names the field."""


class TooManyComparisons(Conflict):
    """The limit on saved comparisons is reached."""

    code = "too_many_comparisons"
    title = "No room for another comparison"


@transaction.atomic
def keep_comparison(*, wanted: KeepComparison, actor: str, now: datetime) -> Comparison:
    """Save a comparison for all users.

    Raises:
        InvalidComparison: If the name is empty, or a run does not exist.
        TooManyComparisons: If the limit is reached.
    """
    if not wanted.name.strip():
        raise InvalidComparison("name", "must not be empty")
    _check(wanted.look)
    if Comparison.objects.count() >= COMPARISONS_AT_MOST:
        most = COMPARISONS_AT_MOST
        raise TooManyComparisons(f"all {most} places for comparisons are used; delete one first")
    row = Comparison.objects.create(
        name=wanted.name.strip(),
        remarks=wanted.remarks,
        look=msgspec.to_builtins(wanted.look),
        created_at=now,
        created_by=actor[:ACTOR_LENGTH],
    )
    _audit(row, "kept", actor=actor, reason=wanted.reason, now=now)
    return row


@transaction.atomic
def forget_comparison(*, comparison_id: int, actor: str, reason: str = "", now: datetime) -> None:
    """Delete a comparison.

    Raises:
        ComparisonNotFound: If there is none with this id.
    """
    row = Comparison.objects.select_for_update().filter(pk=comparison_id).first()
    if row is None:
        raise ComparisonNotFound(f"comparison {comparison_id} does not exist")
    _audit(row, "forgotten", actor=actor, reason=reason, now=now)
    row.delete()


def _check(look: ComparisonLook) -> None:
    try:
        for name in look.runs:
            readable_run_id(name)
    except RunNotFound as error:
        raise InvalidComparison("look.runs", str(error)) from error
    if (look.begin is None) != (look.end is None):
        raise InvalidComparison("look.end", "a range needs both `begin` and `end`, or neither")
    if look.begin is None or look.end is None:
        return
    if not -_FARTHEST <= look.begin <= look.end <= _FARTHEST:
        raise InvalidComparison("look.end", "must be a number not less than `begin`")


def _audit(row: Comparison, verb: str, *, actor: str, reason: str, now: datetime) -> None:
    record_event(
        run_id=None,
        kind=f"comparison_{verb}",
        message=f"{verb} the comparison {row.name}",
        actor=actor,
        reason=reason,
        details={"comparison": row.pk, "look": row.look},
        now=now,
    )
