"""Read the comparisons that people keep."""

import msgspec

from rollouts.metrics.models.comparisons import COMPARISONS_AT_MOST, Comparison
from rollouts.metrics.schemas.comparisons import ComparisonLook, ComparisonRow, Comparisons
from runs.selectors.watching import shown_name, token_names


class ComparisonNotFound(LookupError):
    """There is no such comparison."""


def comparison(comparison_id: int) -> ComparisonRow:
    """Return a comparison.

    Raises:
        ComparisonNotFound: If there is none of this id.
    """
    row = Comparison.objects.filter(pk=comparison_id).first()
    if row is None:
        raise ComparisonNotFound(f"there is no comparison {comparison_id}")
    return comparison_row(row, names=token_names([row.created_by]))


def comparison_list() -> Comparisons:
    """Return all comparisons, newest first."""
    rows = list(Comparison.objects.order_by("-pk")[:COMPARISONS_AT_MOST])
    names = token_names(row.created_by for row in rows)
    return Comparisons(results=[comparison_row(row, names=names) for row in rows])


def comparison_row(row: Comparison, *, names: dict[str, str]) -> ComparisonRow:
    """Return a comparison as pages show it; `names` are those of tokens, by identity."""
    return ComparisonRow(
        id=row.pk,
        name=row.name,
        remarks=row.remarks,
        look=msgspec.convert(row.look, ComparisonLook),
        created_at=row.created_at,
        created_by=shown_name(row.created_by, names),
    )
