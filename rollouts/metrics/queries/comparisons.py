"""Queries for saved comparisons."""

import msgspec

from rollouts.metrics.rules.comparisons import COMPARISON
from rollouts.metrics.schemas.comparisons import ComparisonRow, Comparisons, ComparisonView
from runs.access.queries.audit import shown_name, token_names
from runs.saved.models import SavedObject


def comparison(comparison_id: int) -> ComparisonRow:
    """Return a comparison.

    Raises:
        SavedObjectNotFound: If there is none with this id.
    """
    found = SavedObject.objects.of(COMPARISON)
    row = found.one(f"comparison {comparison_id} does not exist", pk=comparison_id)
    return comparison_row(row, names=token_names([row.author]))


def comparison_list() -> Comparisons:
    """Return all comparisons, newest first."""
    rows = list(SavedObject.objects.of(COMPARISON).order_by("-pk")[: COMPARISON.at_most])
    names = token_names(row.author for row in rows)
    return Comparisons(results=[comparison_row(row, names=names) for row in rows], next=None)


def comparison_row(row: SavedObject, *, names: dict[str, str]) -> ComparisonRow:
    """Return a comparison in the API format; `names` are the names of tokens by identity."""
    return ComparisonRow(
        id=row.pk,
        name=row.name,
        remarks=row.text,
        view=msgspec.convert(row.body, ComparisonView),
        created_at=row.created_at,
        created_by=shown_name(row.author, names),
    )
