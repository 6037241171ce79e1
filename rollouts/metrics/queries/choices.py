"""Queries for the metrics that a person chose last."""

import msgspec

from rollouts.metrics.models.choices import MetricChoice
from rollouts.metrics.schemas.choices import MetricChoiceRow, MetricChoices, MetricChoiceView


def choices_of(owner: str) -> MetricChoices:
    """Return the choices of a person, by page and kind."""
    rows = MetricChoice.objects.filter(owner=owner).order_by("page", "kind")
    return MetricChoices(
        results=[
            MetricChoiceRow(
                page=row.page,  # type: ignore[arg-type]
                kind=row.kind,  # type: ignore[arg-type]
                view=msgspec.convert(row.view, MetricChoiceView),
                changed_at=row.changed_at,
            )
            for row in rows
        ],
        next=None,
    )
