"""Queries for saved comparisons."""

import msgspec

from rollouts.metrics.models.comparisons import COMPARISONS_AT_MOST, Comparison
from rollouts.metrics.schemas.comparisons import ComparisonLook, ComparisonRow, Comparisons
from runs.access.queries.audit import shown_name, token_names
from web.rules.errors import NotFound


class ComparisonNotFound(NotFound):
    """The comparison does not exist."""


def comparison(comparison_id: int) -> ComparisonRow:
    """Return a comparison.

    Raises:
        ComparisonNotFound: If there is none with this id.
    """
    row = Comparison.objects.filter(pk=comparison_id).first()
    if row is None:
        raise ComparisonNotFound(f"comparison {comparison_id} does not exist")
    return comparison_row(row, names=token_names([row.created_by]))


def comparison_list() -> Comparisons:
    """Return all comparisons, newest first."""
    rows = list(Comparison.objects.order_by("-pk")[:COMPARISONS_AT_MOST])
    names = token_names(row.created_by for row in rows)
    return Comparisons(results=[comparison_row(row, names=names) for row in rows], next=None)


def comparison_row(row: Comparison, *, names: dict[str, str]) -> ComparisonRow:
    """Return a comparison in the API format; `names` are the names of tokens by identity."""
    return ComparisonRow(
        id=row.pk,
        name=row.name,
        remarks=row.remarks,
        look=msgspec.convert(row.look, ComparisonLook),
        created_at=row.created_at,
        created_by=shown_name(row.created_by, names),
    )
